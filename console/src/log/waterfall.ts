/** The steps of a run and of the runs below it as lanes over one time axis, on which long silence is folded. */
import type { RecordedStep } from "../api/types";

export interface Lane {
  key: string;
  step: RecordedStep;
  /** How far below the root its run is. */
  depth: number;
  kind: "model" | "tool" | "child" | "wait";
  from: number;
  to: number;
  open: boolean;
  /** Where it begins and how long it is, as parts of the axis. */
  at: number;
  long: number;
}

const FOLD_MS = 60_000;
/** The part of the axis that a folded silence takes. */
const FOLD_PART = 0.02;

export interface Axis {
  from: number;
  to: number;
  folds: number;
  place: (time: number) => number;
}

/** The lanes: the steps of a child follow the step that started it. */
export function lanesOf(steps: readonly RecordedStep[], root: string, now: number): Lane[] {
  const byRun = new Map<string, RecordedStep[]>();
  for (const step of steps) {
    const own = byRun.get(step.run_id);
    if (own) own.push(step);
    else byRun.set(step.run_id, [step]);
  }
  const lanes: Lane[] = [];
  const add = (run: string, depth: number): void => {
    const own = byRun.get(run) ?? [];
    byRun.delete(run);
    for (const step of own) {
      if (step.started_at != null) lanes.push(laneOf(step, depth, now));
      if (step.child_run_id != null) add(step.child_run_id, depth + 1);
    }
  };
  add(root, 0);
  for (const run of [...byRun.keys()]) add(run, 1); // a child whose step is on another page
  const axis = axisOf(lanes);
  for (const lane of lanes) {
    lane.at = axis.place(lane.from);
    lane.long = axis.place(lane.to) - lane.at;
  }
  return lanes;
}

function laneOf(step: RecordedStep, depth: number, now: number): Lane {
  const from = Date.parse(step.started_at ?? "");
  const open = step.settled_at == null;
  const to = open ? Math.max(now, from) : Date.parse(step.settled_at ?? "");
  const waits = step.waits_for === "person" || (step.state === "waiting" && step.waits_for === "timer");
  const isChild = step.child_run_id != null || step.waits_for === "child" || step.waits_for === "task";
  const kind = step.kind === "model" ? "model" : isChild ? "child" : waits ? "wait" : "tool";
  return { key: `${step.run_id} ${step.number}`, step, depth, kind, from, to, open, at: 0, long: 0 };
}

/** The time that was worked, in order; what lies between and is longer than a minute is folded. */
export function axisOf(lanes: readonly Lane[]): Axis {
  const busy: [number, number][] = [];
  for (const { from, to, kind } of lanes.toSorted((a, b) => a.from - b.from)) {
    const end = kind === "wait" ? Math.min(to, from + FOLD_MS) : to;
    const last = busy.at(-1);
    if (last && from - last[1] <= FOLD_MS) last[1] = Math.max(last[1], end);
    else busy.push([from, end]);
  }
  const folds = Math.max(0, busy.length - 1);
  const worked = busy.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
  const scale = (1 - Math.min(0.5, folds * FOLD_PART)) / worked;
  const fold = folds === 0 ? 0 : Math.min(0.5, folds * FOLD_PART) / folds;
  const place = (time: number): number => {
    let at = 0;
    for (const [from, to] of busy) {
      if (time <= from) return at;
      if (time <= to) return at + (time - from) * scale;
      at += (to - from) * scale + fold;
    }
    return Math.min(1, at - fold);
  };
  return { from: busy[0]?.[0] ?? 0, to: busy.at(-1)?.[1] ?? 0, folds, place };
}
