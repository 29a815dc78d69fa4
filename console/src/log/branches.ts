/** The tree of a thread's runs: which chain leads to a run, where branches begin, and how they are drawn. */
import type { Run } from "../api/types";

export interface Branch {
  run: Run;
  /** Runs that continue from this one at another place than the run that is drawn below it. */
  forks: Branch[];
}

/** The run with all its bases, oldest first, as far as they are known. */
export function chainOf(runs: readonly Run[], tip: string | null): Run[] {
  const byId = new Map(runs.map((run) => [run.id, run]));
  const chain = new Set<Run>();
  for (let run = byId.get(tip ?? ""); run && !chain.has(run); run = byId.get(run.base_run_id ?? "")) chain.add(run);
  return [...chain].reverse();
}

/** The newest run that continues from `start` without leaving its branch; without `start` the newest of all. */
export function tipOf(runs: readonly Run[], start: string | null): string | null {
  const newest = [...runs].sort(byCreation);
  if (start === null) return newest.at(-1)?.id ?? null;
  let tip = start;
  for (const run of newest) if (run.base_run_id === tip && continues(run)) tip = run.id;
  return tip;
}

/** The runs that no other run continues: the ends of all branches, oldest first. */
export function tipsOf(runs: readonly Run[]): Run[] {
  const bases = new Set(runs.filter(continues).map((run) => run.base_run_id));
  return [...runs].sort(byCreation).filter((run) => !bases.has(run.id));
}

/** How many runs besides those of the chain continue from each message, by its sequence. */
export function forkPoints(runs: readonly Run[], chain: readonly Run[]): Map<number, number> {
  const points = new Map<number, number>();
  const shown = new Set(chain.map((run) => run.id));
  for (const run of runs) {
    const at = run.base_sequence;
    if (at !== null && run.base_run_id !== null && shown.has(run.base_run_id) && !shown.has(run.id))
      points.set(at, (points.get(at) ?? 0) + 1);
  }
  return points;
}

/** The runs as a list of lines: a run that continues the end of another follows it, and forks hang below it. */
export function treeOf(runs: readonly Run[]): Branch[] {
  const children = new Map<string | null, Run[]>();
  const known = new Set(runs.map((run) => run.id));
  for (const run of [...runs].sort(byCreation)) {
    const base = run.base_run_id !== null && known.has(run.base_run_id) ? run.base_run_id : null;
    children.set(base, [...(children.get(base) ?? []), run]);
  }
  const line = (start: Run): Branch[] => {
    const lines: Branch[] = [];
    for (let run: Run | undefined = start; run; ) {
      const all: Run[] = children.get(run.id) ?? [];
      const next: Run | undefined = all.find(continues);
      lines.push({ run, forks: all.filter((each) => each !== next).flatMap(line) });
      run = next;
    }
    return lines;
  };
  return (children.get(null) ?? []).flatMap(line);
}

function continues(run: Run): boolean {
  return run.base_sequence === null;
}

function byCreation(a: Run, b: Run): number {
  return a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : a.id < b.id ? -1 : 1;
}
