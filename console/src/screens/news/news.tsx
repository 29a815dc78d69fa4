/** What completed, failed, waits or fired, newest first. */
import { post } from "../../api/client";
import { BASE } from "../../api/space";
import type { Notification } from "../../api/types";
import { recent } from "../../live/threads";
import { Act } from "../../parts/act";
import { Listed } from "../../parts/rows";
import { Screen, useList } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

const KINDS: Record<string, [word: string, mark: "done" | "failed" | "waiting" | "live" | ""]> = {
  "budget.warning": ["most of the budget is spent", "waiting"],
  "budget.exceeded": ["the budget is spent", "failed"],
  "run.completed": ["completed", "done"],
  "run.failed": ["failed", "failed"],
  "run.cancelled": ["cancelled", ""],
  "run.waiting": ["waits for you", "waiting"],
  "reminder.triggered": ["reminder", "live"],
  "schedule.fired": ["schedule fired", "live"],
  "schedule.failed": ["schedule failed", "failed"],
  "webhook.disabled": ["webhook switched off", "failed"],
};

export function News() {
  const list = useList<Notification>("/api/notifications", {}, (each) => each.number);
  const read = (
    <Act do={() => post("/api/notifications/read", {})} after={list.refresh}>
      Mark all as read
    </Act>
  );
  return (
    <Screen title="News" actions={read}>
      <Listed
        label="News"
        list={list}
        keyOf={(each) => each.number}
        empty={<Empty>{words.noNews}</Empty>}
        href={hrefOf}
        mark={(each) => <Dot mark={KINDS[each.kind]?.[1] ?? ""} />}
        columns={[
          { label: "what", width: "minmax(0, 1fr)", show: titleOf },
          { label: "", width: "10rem", as: "quiet", show: (each) => KINDS[each.kind]?.[0] ?? each.kind },
          {
            label: "",
            width: "3.5rem",
            as: "quiet",
            show: (each) => (each.read_at === null ? <b class="live">new</b> : ""),
          },
          { label: "when", width: "6rem", as: "figure", show: (each) => <Ago at={each.created_at} /> },
        ]}
      />
    </Screen>
  );
}

function hrefOf(each: Notification): string | null {
  const data = (each.data ?? {}) as Record<string, unknown>;
  if (each.run_id !== null)
    return each.thread_id === null ? `${BASE}/r/${each.run_id}` : `${BASE}/t/${each.thread_id}/${each.run_id}`;
  if (typeof data.reminder_id === "string") return `${BASE}/reminders/${data.reminder_id}`;
  if (typeof data.schedule_id === "string") return `${BASE}/schedules/${data.schedule_id}`;
  return each.thread_id === null ? null : `${BASE}/t/${each.thread_id}`;
}

function titleOf(each: Notification): string {
  const data = (each.data ?? {}) as Record<string, unknown>;
  const words = [data.content, data.message, data.name, data.reason].find((text) => typeof text === "string" && text);
  const thread = recent.items.value?.find((thread) => thread.id === each.thread_id)?.title;
  if (each.run_id !== null && each.root_run_id !== null && each.root_run_id !== each.run_id)
    return "A run of a sub-agent";
  return thread ?? (words === undefined ? (each.run_id ?? each.kind) : String(words));
}
