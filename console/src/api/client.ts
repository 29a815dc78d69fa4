/** Requests to the API. A write is made under a key of its own, so that its repeats have no further effect. */
import { signal } from "@preact/signals";
import { inSpace } from "./space";

export class ApiError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status: number,
    readonly details: Record<string, unknown> = {},
    readonly requestId: string | null = null,
  ) {
    super(message);
  }
}

/** Whether the server asks for a key: the shell then shows the key page. */
export const keyNeeded = signal(false);

interface Options {
  body?: unknown;
  /** Repeats of a write carry the same key. */
  key?: string;
  headers?: Record<string, string>;
  onResponse?: (response: Response) => void;
}

export const get = <T>(path: string): Promise<T> => request<T>("GET", path);
export const post = <T>(path: string, body?: unknown, key: string = newKey()): Promise<T> =>
  request<T>("POST", path, { body, key });
export const patch = <T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> =>
  request<T>("PATCH", path, { body, headers });
export const remove = (path: string): Promise<unknown> => request("DELETE", path);

export async function request<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.key !== undefined) headers["Idempotency-Key"] = options.key;
  const body = options.body === undefined ? null : JSON.stringify(options.body);
  let response: Response;
  try {
    response = await fetch(inSpace(path), { method, headers, body, credentials: "same-origin" });
  } catch {
    throw new ApiError("UNREACHABLE", "the server cannot be reached", 0);
  }
  options.onResponse?.(response);
  if (response.ok) return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
  const error = await readError(response);
  if (error.status === 401) keyNeeded.value = true;
  throw error;
}

/** A thing with its ETag, for a change that holds only if nobody else changed it since. */
export async function readTagged<T>(path: string): Promise<{ value: T; etag: string | null }> {
  let etag: string | null = null;
  const value = await request<T>("GET", path, { onResponse: (response) => (etag = response.headers.get("ETag")) });
  return { value, etag };
}

async function readError(response: Response): Promise<ApiError> {
  const id = response.headers.get("X-Request-Id");
  try {
    const { error } = (await response.json()) as {
      error: { code: string; message: string; details?: Record<string, unknown> };
    };
    return new ApiError(error.code, error.message, response.status, error.details ?? {}, id);
  } catch {
    return new ApiError("UNREADABLE", `the server answered ${response.status}`, response.status, {}, id);
  }
}

/** An id for one intent of a person: made before the first try, kept for its repeats. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The address of a list or a thing, with the given query. */
export function url(path: string, query: Record<string, string | number | undefined | null> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}
