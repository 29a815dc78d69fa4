/** The figures of the foot: what the workers do, what waits, and what today has cost. Read again when something moved. */
import { signal } from "@preact/signals";
import { get, url } from "../api/client";
import type { QueueView, UsageReport, WorkerView } from "../api/types";
import { throttled } from "./throttle";

export interface Totals {
  /** Workers that hold a run, of those that live. */
  busy: number;
  workers: number;
  /** Runs that they hold, of those that they could hold. */
  held: number;
  places: number;
  ready: number;
  running: number;
  waiting: number;
  /** Dollars of this day in UTC; null while no call has a known price. */
  today: number | null;
}

export const totals = signal<Totals | null>(null);
/** The number of the newest event of the thread that is shown. */
export const shownEvent = signal<number | null>(null);

const INTERVAL_MS = 3000;

export const readTotals = throttled(async () => {
  const day = new Date().toISOString().slice(0, 10);
  const [workers, queue, usage] = await Promise.all([
    get<{ items: WorkerView[] }>("/api/workers"),
    get<QueueView>("/api/queue?limit=1"),
    get<UsageReport>(url("/api/usage", { group_by: "day", from: day, to: day })),
  ]);
  const alive = workers.items.filter((worker) => worker.alive);
  const { total } = usage;
  totals.value = {
    busy: alive.filter((worker) => heldBy(worker) > 0).length,
    workers: alive.length,
    held: alive.reduce((sum, worker) => sum + heldBy(worker), 0),
    places: alive.reduce((sum, worker) => sum + worker.concurrency, 0),
    ready: queue.counts.ready,
    running: queue.counts.running,
    waiting: queue.counts.waiting,
    today: total.calls > 0 && total.calls === total.unpriced_calls ? null : total.cost_usd,
  };
}, INTERVAL_MS);

const heldBy = (worker: WorkerView): number => worker.runs.length + worker.other_runs;
