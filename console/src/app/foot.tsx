/** The foot: whether the page is live, and what happens now. */
import { useEffect } from "preact/hooks";
import { BASE } from "../api/space";
import { openCount } from "../live/questions";
import { hints } from "../live/resource";
import { connection } from "../live/socket";
import { recent } from "../live/threads";
import { readTotals, shownEvent, totals } from "../live/totals";
import { count, money, plural } from "../parts/format";
import { helpShown } from "../parts/keys";
import { Dot } from "../parts/status";
import { now } from "../parts/time";

const AFTER_ROWS_MS = 600; // the rows come first
const PHONE = matchMedia("(max-width: 48rem)");

export function Foot() {
  useTotals();
  return (
    <footer>
      <Connection />
      {shownEvent.value !== null && (
        <span title="The newest event of this thread's run">event {count(shownEvent.value)}</span>
      )}
      <Figures />
      <span>{openCount.value} waiting for you</span>
      <span class="end">J K next, previous</span>
      <span>A approve</span>
      <button type="button" class="bare" onClick={() => (helpShown.value = true)}>
        ? all keys
      </button>
    </footer>
  );
}

/** Read the figures after the first rows and whenever the feed says that something moved; a phone shows none of them. */
function useTotals(): void {
  const ready = recent.items.value !== null;
  const moved = hints.value;
  useEffect(() => {
    if (ready && !PHONE.matches) setTimeout(readTotals, totals.value === null ? AFTER_ROWS_MS : 0);
  }, [ready, moved]);
}

function Figures() {
  const found = totals.value;
  if (found === null) return null;
  const { busy, workers, held, places, ready, waiting, today } = found;
  return (
    <>
      <a href={`${BASE}/workers`} title={`They hold ${plural(held, "run")} of ${count(places)} that they can hold`}>
        {count(busy)} of {plural(workers, "worker")} busy
      </a>
      <a href={`${BASE}/workers`} title="Runs that wait for a worker, and runs that wait for something else">
        {count(ready)} ready, {count(waiting)} waiting
      </a>
      <a href={`${BASE}/costs`} title="The model calls of this day, in UTC">
        {money(today)} today
      </a>
    </>
  );
}

/** On a phone there is no foot: a page that is not connected says so above the tabs. */
export function Offline() {
  return connection.value.state === "down" ? (
    <div class="offline phone-only">
      <Connection />
    </div>
  ) : null;
}

function Connection() {
  const { state, since, retryAt } = connection.value;
  if (state === "live")
    return (
      <span role="status">
        <Dot mark="live" />
        live
      </span>
    );
  const seconds = Math.max(0, Math.round(((retryAt ?? 0) - Math.max(now.value, Date.now())) / 1000));
  const text =
    state === "connecting" ? "connecting" : `not connected since ${new Date(since).toLocaleTimeString("en-GB")}`;
  return (
    <span role="status" class={state === "down" ? "fail" : undefined}>
      <Dot mark={state === "down" ? "failed" : ""} />
      {text}
      {state === "down" && retryAt !== null ? `, next try in ${seconds} s` : ""}
    </span>
  );
}
