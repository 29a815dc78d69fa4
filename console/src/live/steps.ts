/** The steps of a run, or of a run and all below it, read page after page, and again from the first that is open. */
import { signal } from "@preact/signals";
import { ApiError, get, url } from "../api/client";
import type { Page, RecordedStep } from "../api/types";
import { throttled } from "./throttle";

const PAGE = 200;
/** A list of so few steps is read from its beginning: runs below may add to any part of it. */
const SHORT = 400;

export class StepPages {
  readonly items = signal<RecordedStep[] | null>(null);
  readonly error = signal<ApiError | null>(null);
  /** Where each page that was read begins. */
  private pages: { cursor: string | null; start: number }[] = [{ cursor: null, start: 0 }];
  private closed = false;

  constructor(
    readonly run: string,
    private readonly tree: boolean,
  ) {}

  close(): void {
    this.closed = true;
  }

  readonly refresh = throttled(async () => {
    try {
      await this.read();
      this.error.value = null;
    } catch (error) {
      if (error instanceof ApiError) this.error.value = error;
    }
  });

  async read(): Promise<RecordedStep[]> {
    const known = this.items.value ?? [];
    const open = known.findIndex((step) => !step.settled_at);
    const first = this.tree && known.length <= SHORT ? 0 : open < 0 ? known.length : open;
    const from = this.pages.findLastIndex((page) => page.start <= first);
    const pages = this.pages.slice(0, from);
    let { cursor, start } = this.pages[from] as { cursor: string | null; start: number };
    let steps = known.slice(0, start);
    while (!this.closed) {
      const page: Page<RecordedStep> = await get(
        url(`/api/runs/${this.run}/steps`, { ...(this.tree && { tree: "true" }), limit: PAGE, cursor }),
      );
      pages.push({ cursor, start });
      steps = [...steps, ...page.items];
      cursor = page.next_cursor;
      start = steps.length;
      if (cursor === null || steps.length > (this.items.value?.length ?? 0)) this.items.value = steps;
      if (cursor === null) break;
    }
    this.pages = pages.length > 0 ? pages : this.pages;
    return steps;
  }
}
