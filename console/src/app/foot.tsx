/** The foot: whether the page is live, and what happens now. */
import { openCount } from "../live/questions";
import { hints } from "../live/resource";
import { connection } from "../live/socket";
import { recent } from "../live/threads";
import { helpShown } from "../parts/keys";
import { Dot } from "../parts/status";
import { now } from "../parts/time";

export function Foot() {
  const { state } = connection.value;
  const running = (recent.items.value ?? []).filter((thread) => thread.latest_run?.status === "running").length;
  return (
    <footer>
      <Connection />
      <span>{running} running</span>
      <span>{openCount.value} waiting for you</span>
      <span class="quiet">{state === "live" && hints.value > 0 ? `${hints.value} changes seen` : ""}</span>
      <span class="end">J K next, previous</span>
      <span>A approve</span>
      <button type="button" class="bare" onClick={() => (helpShown.value = true)}>
        ? all keys
      </button>
    </footer>
  );
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
