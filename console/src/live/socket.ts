/**
 * The one socket of a tab. Each subscription has a position of its own, so that a cut loses and repeats nothing.
 *
 *     connecting ──► live ──► down ── 0.25 s … 10 s, at once when the network or the person comes back ──► connecting
 */
import { signal } from "@preact/signals";
import { SPACE } from "../api/space";

export interface EventFrame {
  type: "event";
  channel?: string;
  session_id?: string;
  task_id?: string;
  seq: number;
  cursor?: string;
  data: Record<string, unknown>;
}
type ServerFrame =
  | EventFrame
  | { type: "subscribed"; id?: string; cursor?: string; after?: number }
  | { type: "ended"; session_id?: string; channel?: string; task_id?: string; reason: string; cursor?: string }
  | { type: "error"; id?: string; session_id?: string; channel?: string; error: { code: string; message: string } }
  | { type: "ping" | "pong" | "unsubscribed" };

export interface Subscriber {
  target: { channel: "feed" | "notifications" } | { session_id: string };
  /** The position to go on from; null begins with what is under way. */
  position: () => string | number | null;
  onSubscribed?: (position: string | number | null) => void;
  onEvent: (frame: EventFrame) => void;
  onError?: (code: string, message: string) => void;
}

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 10_000;
const SILENCE_MS = 40_000; // the server sends a ping every 15 s
const HIDDEN_MS = 60_000;

export const connection = signal<{ state: "connecting" | "live" | "down"; since: number; retryAt: number | null }>({
  state: "connecting",
  since: Date.now(),
  retryAt: null,
});

class LiveSocket {
  private socket: WebSocket | null = null;
  private readonly subscribers = new Map<string, Subscriber>();
  private nextId = 1;
  private failures = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private asleep = false;
  /** Asks, after a refused handshake, whether a key is needed: a socket cannot tell. */
  onRefused: () => void = () => {};

  start(): void {
    addEventListener("online", () => this.connectNow());
    addEventListener("focus", () => this.connectNow());
    addEventListener("offline", () => this.socket?.close());
    document.addEventListener("visibilitychange", () => this.onVisibility());
    this.connect();
  }

  subscribe(subscriber: Subscriber): () => void {
    const id = String(this.nextId++);
    this.subscribers.set(id, subscriber);
    if (connection.value.state === "live") this.send(id, subscriber);
    return () => {
      this.subscribers.delete(id);
      this.write({ type: "unsubscribe", ...subscriber.target });
    };
  }

  /** Subscribe again from the position that the subscriber holds, after a gap or an ended channel. */
  private resubscribe(id: string): void {
    const subscriber = this.subscribers.get(id);
    if (subscriber) setTimeout(() => this.subscribers.has(id) && this.send(id, subscriber), FIRST_DELAY_MS);
  }

  private connect(): void {
    clearTimeout(this.retry);
    this.asleep = false;
    if (connection.value.state === "live" || this.socket) return;
    connection.value = { ...connection.value, state: this.failures ? "down" : "connecting", retryAt: null };
    const path = SPACE === null ? "/ws" : `/api/spaces/${encodeURIComponent(SPACE)}/ws`;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`);
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      connection.value = { state: "live", since: Date.now(), retryAt: null };
      this.listen();
      for (const [id, subscriber] of this.subscribers) this.send(id, subscriber);
    };
    socket.onmessage = (message) => {
      this.failures = 0;
      this.listen();
      this.receive(JSON.parse(String(message.data)) as ServerFrame);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      clearTimeout(this.silence);
      if (!opened) this.onRefused();
      if (!this.asleep) this.scheduleRetry();
    };
  }

  private scheduleRetry(): void {
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.failures++, MAX_DELAY_MS) * (0.75 + Math.random() / 2);
    const since = connection.value.state === "down" ? connection.value.since : Date.now();
    connection.value = { state: "down", since, retryAt: Date.now() + delay };
    this.retry = setTimeout(() => this.connect(), delay);
  }

  connectNow(): void {
    if (connection.value.state !== "live" || this.asleep) this.connect();
  }

  /** A wire that is silent for longer than the server's pings is dead, even if nobody closed it. */
  private listen(): void {
    clearTimeout(this.silence);
    const { socket } = this;
    this.silence = setTimeout(() => {
      if (this.socket !== socket) return;
      socket?.close();
      socket?.onclose?.(new CloseEvent("close"));
    }, SILENCE_MS);
  }

  private receive(frame: ServerFrame): void {
    switch (frame.type) {
      case "event":
        for (const each of this.subscribers.values()) if (matches(each, frame)) each.onEvent(frame);
        return;
      case "subscribed":
        this.subscribers.get(frame.id ?? "")?.onSubscribed?.(frame.cursor ?? frame.after ?? null);
        return;
      case "ended":
        if (frame.channel) for (const [id, each] of this.subscribers) if (matches(each, frame)) this.resubscribe(id);
        return;
      case "error":
        if (frame.error.code !== "ALREADY_SUBSCRIBED")
          this.subscribers.get(frame.id ?? "")?.onError?.(frame.error.code, frame.error.message);
        return;
      case "ping":
      case "pong":
      case "unsubscribed":
        return;
    }
  }

  private send(id: string, subscriber: Subscriber): void {
    const after = subscriber.position();
    this.write({ type: "subscribe", id, ...subscriber.target, ...(after === null ? {} : { after }) });
  }

  private write(frame: unknown): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  /** A hidden tab gives up its socket after a minute, unless it is the one that watches for questions. */
  private onVisibility(): void {
    if (!document.hidden) {
      this.connectNow();
      return;
    }
    setTimeout(() => {
      if (document.hidden && !watching.value && this.socket) {
        this.asleep = true;
        connection.value = { state: "connecting", since: Date.now(), retryAt: null };
        this.socket.close();
      }
    }, HIDDEN_MS);
  }
}

/** Whether this tab is the one, of all of this browser, that keeps watching while it is hidden. */
export const watching = signal(false);

export function holdWatch(): void {
  void navigator.locks?.request("holdfast-watch", () => {
    watching.value = true;
    return new Promise<never>(() => {});
  });
}

function matches(subscriber: Subscriber, frame: { channel?: string; session_id?: string }): boolean {
  const { target } = subscriber;
  return "channel" in target ? target.channel === frame.channel : target.session_id === frame.session_id;
}

export const live = new LiveSocket();
