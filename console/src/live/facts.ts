/** What the logs of ended runs add to their messages: times, recoveries, decisions, changed files. */
import { get, url } from "../api/client";
import { ENDED, type Page, type Run, type Step } from "../api/types";
import { FACT_TYPES, type LogEvent } from "../log/events";
import { applyFact } from "../log/reduce";
import { newLog, type RunLog } from "../log/run_log";
import { StepPages } from "./steps";

const MAX_PAGES = 25;

interface Known {
  chain: () => readonly Run[];
  /** The run that is always in sight, by what stands above and beside the conversation. */
  tip: () => string | null;
  hasLog: (run: string) => boolean;
  /** The steps of the tip are known already. */
  onRead: (run: string, log: RunLog, steps: Step[] | null) => void;
}

/** Reads the facts of the runs in sight one after the other, the newest first. */
export class FactReader {
  private readonly inSight = new Map<string, number>();
  private reading = false;
  private closed = false;

  constructor(private readonly known: Known) {}

  close(): void {
    this.closed = true;
  }

  /** A row of this run came into sight. Returns what to call when it leaves. */
  show(run: string): () => void {
    this.inSight.set(run, (this.inSight.get(run) ?? 0) + 1);
    void this.read().catch(() => {});
    return () => this.inSight.set(run, (this.inSight.get(run) ?? 1) - 1);
  }

  async read(): Promise<void> {
    if (this.reading) return;
    this.reading = true;
    try {
      for (let run = this.next(); run && !this.closed; run = this.next()) {
        const log = await this.readLog(run);
        const steps = run === this.known.tip() ? null : await new StepPages(run, false).read();
        if (!this.closed) this.known.onRead(run, log, steps);
      }
    } finally {
      this.reading = false;
    }
  }

  private next(): string | undefined {
    const isWanted = (id: string): boolean => id === this.known.tip() || (this.inSight.get(id) ?? 0) > 0;
    return this.known.chain().findLast((run) => ENDED.has(run.status) && isWanted(run.id) && !this.known.hasLog(run.id))
      ?.id;
  }

  private async readLog(run: string): Promise<RunLog> {
    const log = newLog(run);
    const types = FACT_TYPES.map((type) => `type=${type}`).join("&");
    let cursor: string | null = null;
    for (let page = 0; page < MAX_PAGES && !this.closed; page++) {
      const path = url(`/api/runs/${run}/events`, { limit: 200, cursor });
      const read: Page<{ seq: number; data: LogEvent }> = await get(`${path}&${types}`);
      for (const event of read.items) applyFact(log, event.data);
      cursor = read.next_cursor;
      if (cursor === null) break;
    }
    log.seq = Number.MAX_SAFE_INTEGER; // it has ended: nothing follows
    return log;
  }
}
