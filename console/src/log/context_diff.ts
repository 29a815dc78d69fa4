/** What a model was told at a step, part by part, beside what it was told at the call before. */
import type { RunContext } from "../api/types";
import { textOf } from "./run_log";

type Context = NonNullable<RunContext["context"]>;
export type Change = "same" | "new" | "changed" | "gone";

export interface Part {
  name: string;
  tokens: number;
  text: string;
  change: Change;
  before: string;
}

/** The parts of the system prompt. Those that the call before had and this one has not are `gone`. */
export function partsOf(context: Context, before: Context | null): Part[] {
  const old = new Map(before?.segments.map((segment) => [segment.name, segment]));
  const parts = context.segments.map(({ name, tokens, text }): Part => {
    const last = old.get(name);
    old.delete(name);
    const change = before === null ? "same" : last === undefined ? "new" : last.text === text ? "same" : "changed";
    return { name, tokens, text, change, before: last?.text ?? "" };
  });
  const gone = [...old.values()].map(
    ({ name, text }): Part => ({ name, tokens: 0, text: "", change: "gone", before: text }),
  );
  return [...parts, ...gone];
}

export interface Told {
  role: string;
  label: string;
  text: string;
  isNew: boolean;
}

/** The messages, and which of them the call before did not have. */
export function messagesOf(context: Context, before: Context | null): Told[] {
  const known = new Set(before?.messages.map(identity));
  return context.messages.map((message) => ({
    role: message.role,
    label: message.sequence === null ? "of the runtime" : String(message.sequence),
    text: [textOf(message.content), ...message.tool_calls.map(callText)].filter(Boolean).join("\n"),
    isNew: before !== null && !known.has(identity(message)),
  }));
}

function callText(call: Context["messages"][number]["tool_calls"][number]): string {
  return `${call.name} ${JSON.stringify(call.arguments)}`;
}

function identity(message: Context["messages"][number]): string {
  return message.id ?? `${message.role} ${textOf(message.content)}`;
}

/** Two texts whose lines have a product above this are compared by their beginnings and ends only. */
const MAX_PRODUCT = 250_000;

/** The lines that two texts do not share, each with its sign, and one shared line around them. */
export function lineDiff(before: string, after: string): string {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let [head, tail] = [0, 0];
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head++;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const middle = changes(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const around = (line: string | undefined): string[] => (line === undefined ? [] : [` ${line}`]);
  return [...around(a[head - 1]), ...middle, ...(tail > 0 ? around(a[a.length - tail]) : [])].join("\n");
}

/** The longest common subsequence of lines decides what is kept. */
function changes(a: readonly string[], b: readonly string[]): string[] {
  if (a.length * b.length > MAX_PRODUCT) return [...a.map((line) => `-${line}`), ...b.map((line) => `+${line}`)];
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => best[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const lines: string[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(` ${a[i]}`);
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) lines.push(`-${a[i++]}`);
    else lines.push(`+${b[j++]}`);
  }
  return lines;
}
