/** One thing of the API that a screen shows: read, and read again when it is asked for. */
import { signal } from "@preact/signals";
import { ApiError, get } from "../api/client";
import { throttled } from "./throttle";

/** Grows with every hint of the feed: what a screen shows may have moved. */
export const hints = signal(0);

export class Resource<T> {
  readonly value = signal<T | null>(null);
  readonly error = signal<ApiError | null>(null);

  constructor(readonly path: string) {}

  readonly refresh = throttled(async () => {
    try {
      this.value.value = await get<T>(this.path);
      this.error.value = null;
    } catch (error) {
      if (error instanceof ApiError) this.error.value = error;
    }
  }, 700);
}
