/** A list that is read in pages, and read again from its start when something moved. */
import { signal } from "@preact/signals";
import { ApiError, get, url } from "../api/client";
import type { Page } from "../api/types";
import { throttled } from "./throttle";

const PAGE_SIZE = 50;

export type Query = Record<string, string | number | undefined | null>;

export class CursorList<T> {
  readonly items = signal<T[] | null>(null);
  readonly error = signal<ApiError | null>(null);
  readonly more = signal(false);
  private cursor: string | null = null;
  private loading = false;

  constructor(
    private readonly path: string,
    private readonly query: Query = {},
    private readonly keyOf: (item: T) => string | number = (item) => (item as { id: string }).id,
  ) {}

  /** Read the newest page again; rows that are further down keep their place. */
  readonly refresh = throttled(async () => {
    try {
      const page = await this.page(null);
      const newest = new Set(page.items.map(this.keyOf));
      const older = (this.items.value ?? []).filter((item) => !newest.has(this.keyOf(item)));
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
      const known = new Set(this.items.value?.map(this.keyOf));
      this.items.value = [...(this.items.value ?? []), ...page.items.filter((item) => !known.has(this.keyOf(item)))];
      this.cursor = page.next_cursor;
      this.more.value = this.cursor !== null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    } finally {
      this.loading = false;
    }
  }

  private page(cursor: string | null): Promise<Page<T>> {
    return get(url(this.path, { limit: PAGE_SIZE, ...this.query, cursor }));
  }
}
