/** Schedules, reminders and daemons: when each is due next, and every firing with its reason. */
import { useSignal } from "@preact/signals";
import { patch, post, remove, request } from "../../api/client";
import { BASE } from "../../api/space";
import type { Firing, Page, Schedule, ScheduleDetail } from "../../api/types";
import { Act, Form } from "../../parts/act";
import { exact } from "../../parts/format";
import { Listed } from "../../parts/rows";
import { Facts, Filters, Screen, Scroll, Section, Shown, useFilters, useList, useResource } from "../../parts/screen";
import { TabsLine } from "../../parts/settings_tabs";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Until } from "../../parts/time";
import { words } from "../../words/en";
import { Firings } from "./firings";

export { DaemonPage, Daemons } from "./daemons";
export { ReminderPage, Reminders } from "./reminders";

const KINDS = [
  ["schedules", "Schedules"],
  ["reminders", "Reminders"],
  ["daemons", "Daemons"],
] as const;
const STATES = [
  ["", "any state"],
  ["active", "active"],
  ["paused", "paused"],
  ["ended", "ended"],
] as const;

export function KindTabs({ at }: { at: string }) {
  return <TabsLine label="Kinds of schedules" of={KINDS} at={at} />;
}

export function Schedules() {
  const { query } = useFilters();
  const making = useSignal(false);
  const list = useList<Schedule>("/api/schedules", { kind: "schedule", state: query.state });
  const make = (
    <button type="button" onClick={() => (making.value = true)}>
      New…
    </button>
  );
  return (
    <Screen
      title="Schedules"
      filters={<Filters choices={[{ name: "state", label: "State", of: STATES }]} />}
      actions={make}
    >
      <KindTabs at="schedules" />
      <Listed
        label="Schedules"
        list={list}
        keyOf={(each) => each.id}
        href={(each) => `${BASE}/schedules/${each.id}`}
        mark={(each) => <Dot mark={each.state === "active" ? "live" : ""} />}
        empty={<Empty command={words.noSchedulesCommand}>{words.noSchedules}</Empty>}
        columns={[
          { label: "name", width: "minmax(0, 1fr)", show: nameOf },
          { label: "when", width: "12rem", as: "quiet", show: whenOf },
          { label: "does", width: "12rem", as: "quiet", show: doesOf },
          { label: "state", width: "5rem", as: "quiet", show: (each) => each.state },
          { label: "next", width: "8rem", as: "figure", show: (each) => <Until at={each.next_due_at} /> },
        ]}
      />
      {making.value && (
        <Form
          title="New schedule"
          action="Create"
          fields={[
            { name: "name", label: "Name", required: true },
            { name: "cron", label: "Cron line", first: "0 9 * * 1-5", required: true, hint: words.cronHint },
            { name: "timezone", label: "Time zone", first: Intl.DateTimeFormat().resolvedOptions().timeZone },
            { name: "agent", label: "Agent", hint: "Empty: the default agent" },
            { name: "input", label: "What it is told", kind: "text", required: true },
          ]}
          onSend={async ({ name, cron, timezone, agent, input }, key) => {
            const action = { type: "run", input, ...(agent && { agent }) };
            await post("/api/schedules", { name, cron, timezone: timezone || "UTC", action }, key);
            list.refresh();
          }}
          onClose={() => (making.value = false)}
        />
      )}
    </Screen>
  );
}

export function SchedulePage({ id = "" }: { id?: string }) {
  const schedule = useResource<ScheduleDetail>(`/api/schedules/${id}`, true);
  const firings = useResource<Page<Firing>>(`/api/schedules/${id}/firings?limit=50`, true);
  const found = schedule.value.value;
  const refresh = (): void => {
    schedule.refresh();
    firings.refresh();
  };
  return (
    <Screen
      title={found ? nameOf(found) : "Schedule"}
      back={{ href: `${BASE}/schedules`, label: "Schedules" }}
      actions={found && <Actions schedule={found} refresh={refresh} />}
    >
      <Scroll>
        <Shown of={schedule} label="Loading the schedule">
          {(each) => (
            <>
              <About schedule={each} />
              <Section label="Latest firings">
                <Shown of={firings} label="Loading the firings">
                  {({ items }) => <Firings of={items} />}
                </Shown>
              </Section>
            </>
          )}
        </Shown>
      </Scroll>
    </Screen>
  );
}

function Actions({ schedule, refresh }: { schedule: Schedule; refresh: () => void }) {
  const changing = useSignal(false);
  const gone = useSignal(false);
  const path = `/api/schedules/${schedule.id}`;
  if (gone.value) return <span class="quiet">deleted</span>;
  const turn = schedule.state === "paused" ? "resume" : "pause";
  return (
    <>
      <Act do={() => post(`${path}/run`)} after={refresh}>
        Run now
      </Act>
      {schedule.state !== "ended" && (
        <Act do={() => request("POST", `${path}/${turn}`)} after={refresh}>
          {turn === "pause" ? "Pause" : "Resume"}
        </Act>
      )}
      <button type="button" onClick={() => (changing.value = true)}>
        Change…
      </button>
      <Act
        look="fail"
        sure="Delete this schedule and its firings?"
        do={() => remove(path)}
        after={() => (gone.value = true)}
      >
        Delete
      </Act>
      {changing.value && (
        <Form
          title="Change this schedule"
          action="Save"
          fields={[
            { name: "name", label: "Name", first: schedule.name ?? "" },
            ...(schedule.at
              ? [{ name: "at", label: "Time", first: schedule.at, required: true }]
              : [
                  {
                    name: "cron",
                    label: "Cron line",
                    first: schedule.cron ?? "",
                    required: true,
                    hint: words.cronHint,
                  },
                ]),
            { name: "timezone", label: "Time zone", first: schedule.timezone },
            { name: "overlap", label: "While its run goes on", kind: "choice", first: schedule.overlap, of: OVERLAPS },
          ]}
          onSend={async (values) => {
            await patch(path, values);
            refresh();
          }}
          onClose={() => (changing.value = false)}
        />
      )}
    </>
  );
}

const OVERLAPS = [
  ["skip", "skip"],
  ["queue", "queue"],
  ["cancel", "cancel the run"],
] as const;

function About({ schedule }: { schedule: ScheduleDetail }) {
  const { action } = schedule;
  const told =
    action.type === "run" ? (typeof action.input === "string" ? action.input : JSON.stringify(action.input)) : null;
  return (
    <Section label="Schedule">
      <Facts
        of={[
          ["state", schedule.state],
          ["when", `${whenOf(schedule)}, ${schedule.timezone}`],
          ["next", schedule.next_due_at && exact(schedule.next_due_at)],
          ["then", schedule.upcoming?.slice(1, 4).map(exact).join(" · ")],
          ["does", doesOf(schedule)],
          ["told", told],
          ["message", action.type === "notify" ? action.message : null],
          ["while its run goes on", schedule.overlap],
          ["if it was missed", schedule.misfire],
          ["ends", schedule.ends_at && exact(schedule.ends_at)],
          ["hook", schedule.has_hook && "it has an address that others call"],
          ["thread", schedule.thread_id && <a href={`${BASE}/t/${schedule.thread_id}`}>open</a>],
          ["made by", schedule.created_by],
        ]}
      />
    </Section>
  );
}

const nameOf = (schedule: Schedule): string => schedule.name ?? schedule.id;

function whenOf(schedule: Schedule): string {
  if (schedule.cron) return schedule.cron;
  return schedule.at ? exact(schedule.at) : schedule.has_hook ? "when its hook is called" : "";
}

function doesOf({ action }: Schedule): string {
  if (action.type === "notify") return "notifies";
  return action.type === "run" ? `runs ${action.agent ?? "the default agent"}` : "reminds";
}
