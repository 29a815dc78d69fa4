/** What the log of a run says, as `reduce` collects it. */
import type { CallState, CustomValues, PlannedItem } from "./events";

export interface Call {
  id: string;
  name: string;
  /** The arguments, as JSON text; a part of it while they arrive. */
  args: string;
  result: string | null;
  /** What a running command has written so far. */
  output: string;
  state: CallState;
  startedAt: number | null;
  settledAt: number | null;
  attempt: number;
  file: CustomValues["holdfast.file"] | null;
  permission: CustomValues["holdfast.permission"] | null;
  child: { runId: string; name: string; ended: "done" | "failed" | null } | null;
}

export interface LiveMessage {
  id: string;
  role: string;
  text: string;
  reasoning: string;
  done: boolean;
  abandoned: boolean;
  at: number;
  calls: string[];
}

/** A place where the log was cut: a worker died, or a model call failed, and the run went on. */
export interface Break {
  kind: "lost" | "retry";
  lostAt: number;
  resumedAt: number | null;
  step: number | null;
  /** How many model calls of the run had ended before it. */
  after: number;
  message: string;
}

export interface RunLog {
  runId: string;
  seq: number;
  at: number;
  messages: LiveMessage[];
  calls: Record<string, Call>;
  breaks: Break[];
  notes: { text: string; at: number; after: number }[];
  modelCalls: number;
  /** Whether no worker has the run: it waits, or its segment has ended. */
  idle: boolean;
  plan: PlannedItem[] | null;
  budget: CustomValues["holdfast.budget"] | null;
  error: string | null;
  /** Open questions by id; the inbox has their content. */
  questions: Record<string, string>;
  /** Ids of running commands by the activity that shows their output. */
  activities: Record<string, string>;
}

export function newLog(runId: string): RunLog {
  return {
    runId,
    seq: 0,
    at: 0,
    messages: [],
    calls: {},
    breaks: [],
    notes: [],
    modelCalls: 0,
    idle: false,
    plan: null,
    budget: null,
    error: null,
    questions: {},
    activities: {},
  };
}

export function newCall(id: string, name = ""): Call {
  const times = { startedAt: null, settledAt: null, attempt: 1 };
  const facts = { file: null, permission: null, child: null };
  return { id, name, args: "", result: null, output: "", state: "asked", ...times, ...facts };
}

/** The text of a message or a result; other parts are named. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null || content === undefined ? "" : JSON.stringify(content);
  return content
    .map((part: { type?: string; text?: string }) => (part.type === "text" ? (part.text ?? "") : `[${part.type}]`))
    .join("\n\n");
}
