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
  private reading: Promise<void> | null = null;

  constructor(
    private readonly path: string,
    private readonly query: Query = {},
    private readonly keyOf: (item: T) => string | number = (item) => (item as { id: string }).id,
  ) {}

  readonly refresh = throttled(async () => {
    try {
      await this.readNewest();
      this.error.value = null;
    } catch (error) {
      if (error instanceof ApiError) this.error.value = error;
    }
  });

  /** Read the newest page again; rows that are further down keep their place, unless others may lie between. */
  async readNewest(): Promise<void> {
    const page = await this.page(null);
    const known = this.items.value ?? [];
    const newest = new Set(page.items.map(this.keyOf));
    const older = known.filter((item) => !newest.has(this.keyOf(item)));
    const joins = page.next_cursor !== null && older.length < known.length;
    this.items.value = joins ? [...page.items, ...older] : page.items;
    if (!joins) this.cursor = page.next_cursor;
    this.more.value = this.cursor !== null;
  }

  readMore(): Promise<void> {
    this.reading ??= this.readNext().finally(() => {
      this.reading = null;
    });
    return this.reading;
  }

  /** Read on until `enough` holds, nothing follows, or nothing can be read. */
  async readUntil(enough: () => boolean): Promise<void> {
    for (let before = -1; this.more.value && !enough() && before !== this.items.value?.length; ) {
      before = this.items.value?.length ?? 0;
      await this.readMore();
    }
  }

  private async readNext(): Promise<void> {
    if (this.cursor === null) return;
    try {
      const page = await this.page(this.cursor);
      const known = new Set(this.items.value?.map(this.keyOf));
      this.items.value = [...(this.items.value ?? []), ...page.items.filter((item) => !known.has(this.keyOf(item)))];
      this.cursor = page.next_cursor;
      this.more.value = this.cursor !== null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  private page(cursor: string | null): Promise<Page<T>> {
    return get(url(this.path, { limit: PAGE_SIZE, ...this.query, cursor }));
  }
}
