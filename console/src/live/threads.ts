/** The list of threads, latest run first: read in pages, and read again when the feed says that a run moved. */
import { signal } from "@preact/signals";
import { ApiError, get, url } from "../api/client";
import type { ListedThread, Page } from "../api/types";
import { throttled } from "./throttle";

const PAGE_SIZE = 50;

export class ThreadList {
  readonly items = signal<ListedThread[] | null>(null);
  readonly error = signal<ApiError | null>(null);
  readonly more = signal(false);
  private cursor: string | null = null;
  private loading = false;

  constructor(private readonly query: { title?: string; status?: string } = {}) {}

  /** Read the newest page again; rows that are further down keep their place. */
  readonly refresh = throttled(async () => {
    try {
      const page = await this.page(null);
      const newest = new Set(page.items.map((thread) => thread.id));
      const older = (this.items.value ?? []).filter((thread) => !newest.has(thread.id));
      const isFirst = this.items.value === null || page.next_cursor === null;
      this.items.value = page.next_cursor === null ? page.items : [...page.items, ...older];
      if (isFirst) this.cursor = page.next_cursor;
      this.more.value = this.cursor !== null;
      this.error.value = null;
    } catch (error) {
      if (error instanceof ApiError) this.error.value = error;
    }
  });

  async readMore(): Promise<void> {
    if (this.loading || this.cursor === null) return;
    this.loading = true;
    try {
      const page = await this.page(this.cursor);
      const known = new Set(this.items.value?.map((thread) => thread.id));
      this.items.value = [...(this.items.value ?? []), ...page.items.filter((thread) => !known.has(thread.id))];
      this.cursor = page.next_cursor;
      this.more.value = this.cursor !== null;
    } finally {
      this.loading = false;
    }
  }

  private page(cursor: string | null): Promise<Page<ListedThread>> {
    return get(url("/api/threads", { ...this.query, limit: PAGE_SIZE, cursor }));
  }
}

/** The threads of the navigation and of the list without a filter. */
export const recent = new ThreadList();
