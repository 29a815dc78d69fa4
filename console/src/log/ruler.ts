/** A run on one line: each step as long as it took, waiting folded, lost workers as a tick. */
import type { Step } from "../api/types";
import type { Break } from "./run_log";

export interface Span {
  kind: "model" | "tool" | "child" | "wait" | "lost" | "fold";
  name: string;
  number: number;
  from: number;
  to: number;
  /** Its share of the line. */
  long: number;
  label: string;
  open: boolean;
}

const FOLD_MS = 60_000;
const OPEN_LONG = 12;

/** The steps of a run as spans; `askedAt` is when the run began to wait for a person, if it does. */
export function spansOf(steps: readonly Step[], breaks: readonly Break[], now: number, askedAt?: number): Span[] {
  const spans: Span[] = [];
  let end: number | null = null;
  for (const step of steps) {
    if (step.started_at == null) continue;
    const from = Date.parse(step.started_at);
    const to = step.settled_at == null ? Math.max(now, from) : Date.parse(step.settled_at);
    const waits = step.waits_for === "person" || (step.state === "waiting" && step.waits_for !== "child");
    if (end !== null && from - end > FOLD_MS) spans.push(fold(step.number, end, from));
    const kind = step.kind === "model" ? "model" : waits ? "wait" : isChild(step) ? "child" : "tool";
    const open = step.settled_at == null;
    spans.push({ kind, name: step.name, number: step.number, from, to, long: 0, label: "", open });
    end = Math.max(end ?? 0, to);
  }
  if (askedAt !== undefined) {
    if (now - askedAt > FOLD_MS) spans.push(fold(0, askedAt, now));
    spans.push({ kind: "wait", name: "a question", number: 0, from: now, to: now, long: 0, label: "", open: true });
  }
  for (const cut of breaks) {
    const at = spans.findIndex((span) => span.from >= (cut.resumedAt ?? cut.lostAt));
    const lost: Span = { ...fold(cut.step ?? 0, cut.lostAt, cut.resumedAt ?? cut.lostAt), kind: "lost", label: "" };
    spans.splice(at < 0 ? spans.length : at, 0, lost);
  }
  return spans.map((span) => ({ ...span, long: long(span) }));
}

/** Milliseconds that the run worked, and that it waited for a person. */
export function timesOf(spans: readonly Span[]): { work: number; wait: number } {
  let [work, wait, end] = [0, 0, 0];
  for (const span of spans) {
    if (span.kind === "lost") continue;
    const from = Math.max(span.from, end);
    if (span.to <= from) continue;
    if (span.kind === "wait" || span.kind === "fold") wait += span.to - from;
    else work += span.to - from;
    end = span.to;
  }
  return { work, wait };
}

function isChild(step: Step): boolean {
  return step.waits_for === "child" || step.waits_for === "task" || step.name.startsWith("agent_");
}

function fold(number: number, from: number, to: number): Span {
  return { kind: "fold", name: "", number, from, to, long: 0, label: "", open: false };
}

/** The square root keeps a call of a millisecond visible beside one of a minute. */
function long(span: Span): number {
  if (span.kind === "wait" && span.open) return OPEN_LONG;
  return Math.max(1, Math.round(Math.sqrt(Math.min(span.to - span.from, FOLD_MS)) * 10) / 10);
}
