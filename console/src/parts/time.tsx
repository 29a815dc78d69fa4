/** Times that tick while the page is connected. */
import { signal } from "@preact/signals";
import { connection } from "../live/socket";
import { ago, duration, exact } from "./format";

const TICK_MS = 10_000;

export const now = signal(Date.now());
setInterval(() => {
  if (connection.value.state === "live" && !document.hidden) now.value = Date.now();
}, TICK_MS);

export function Ago({ at }: { at: string | number | null }) {
  if (at === null) return null;
  return (
    <time dateTime={new Date(at).toISOString()} title={exact(at)}>
      {ago(at, Math.max(now.value, Date.now()))}
    </time>
  );
}

/** How long until a moment that is still to come. */
export function Until({ at }: { at: string | null }) {
  if (at === null) return null;
  const ms = Date.parse(at) - Math.max(now.value, Date.now());
  return (
    <time dateTime={at} title={exact(at)}>
      {ms <= 0 ? "now" : `in ${duration(ms)}`}
    </time>
  );
}
