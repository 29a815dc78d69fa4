/** Times that tick while the page is connected. */
import { signal } from "@preact/signals";
import { connection } from "../live/socket";
import type { PlannedItem } from "../log/events";
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

/** When work on a plan item began, and how long it took. */
export function PlanTime({ item }: { item: PlannedItem }) {
  const { started_at: from, ended_at: to } = item;
  if (from && to)
    return (
      <time dateTime={to} title={`${exact(from)} to ${exact(to)}`}>
        {`${ago(to, Math.max(now.value, Date.now()))}, took ${duration(Date.parse(to) - Date.parse(from))}`}
      </time>
    );
  if (to) return <Ago at={to} />;
  if (!from) return null;
  return (
    <span>
      started <Ago at={from} />
    </span>
  );
}

/** How long work on a plan item took, or has taken so far. */
export function PlanTook({ item }: { item: PlannedItem }) {
  const { started_at: from, ended_at: to } = item;
  if (!from) return null;
  const end = to ? Date.parse(to) : Math.max(now.value, Date.now());
  return (
    <time class="quiet" dateTime={from} title={to ? `${exact(from)} to ${exact(to)}` : `since ${exact(from)}`}>
      {duration(end - Date.parse(from))}
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
