/** The steps of a run and of all runs below it, read page after page. */
import { signal } from "@preact/signals";
import { ApiError, get, url } from "../api/client";
import type { Page, RecordedStep, Step } from "../api/types";
import { throttled } from "./throttle";

const PAGE = 200;
const MAX_PAGES = 25;
/** A longer list is not read again from its beginning. */
const SHORT = 400;

/** The steps of one run, without those below it. */
export async function stepsOf(run: string): Promise<Step[]> {
  const steps: Step[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < MAX_PAGES; page++) {
    const read: Page<Step> = await get(url(`/api/runs/${run}/steps`, { limit: PAGE, cursor }));
    steps.push(...read.items);
    cursor = read.next_cursor;
    if (cursor === null) break;
  }
  return steps;
}

export class TreeSteps {
  readonly items = signal<RecordedStep[] | null>(null);
  readonly error = signal<ApiError | null>(null);
  readonly complete = signal(false);
  private lastCursor: string | null = null;
  /** How many steps lie before the page of `lastCursor`. */
  private before = 0;
  private closed = false;

  constructor(private readonly run: string) {}

  close(): void {
    this.closed = true;
  }

  readonly refresh = throttled(async () => {
    const isShort = (this.items.value?.length ?? 0) <= SHORT;
    let cursor = isShort ? null : this.lastCursor;
    let steps = isShort ? [] : (this.items.value ?? []).slice(0, this.before);
    try {
      while (!this.closed) {
        const query = { tree: "true", limit: PAGE, cursor };
        const page: Page<RecordedStep> = await get(url(`/api/runs/${this.run}/steps`, query));
        this.lastCursor = cursor;
        this.before = steps.length;
        steps = [...steps, ...page.items];
        cursor = page.next_cursor;
        if (cursor === null || steps.length > (this.items.value?.length ?? 0)) this.items.value = steps;
        if (cursor === null) break;
      }
      this.complete.value = true;
      this.error.value = null;
    } catch (error) {
      if (error instanceof ApiError) this.error.value = error;
    }
  });
}
