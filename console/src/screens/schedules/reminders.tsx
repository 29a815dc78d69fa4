/** Reminders: what is to be remembered, when, and why one was triggered. */
import { useSignal } from "@preact/signals";
import { patch, post, remove } from "../../api/client";
import { BASE } from "../../api/space";
import type { Firing, Page, Reminder } from "../../api/types";
import { Act, Form } from "../../parts/act";
import { exact } from "../../parts/format";
import { Listed } from "../../parts/rows";
import { Facts, Filters, Screen, Scroll, Section, Shown, useFilters, useList, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago, Until } from "../../parts/time";
import { words } from "../../words/en";
import { Firings } from "./firings";
import { KindTabs } from "./schedules";

const STATUSES = [
  ["", "any status"],
  ["pending", "pending"],
  ["triggered", "triggered"],
  ["completed", "completed"],
  ["dismissed", "dismissed"],
] as const;
const MARKS = { pending: "live", triggered: "waiting", completed: "done", dismissed: "" } as const;
const HOUR_MS = 3_600_000;

export function Reminders() {
  const { query } = useFilters();
  const making = useSignal(false);
  const list = useList<Reminder>("/api/reminders", { status: query.status });
  const make = (
    <button type="button" onClick={() => (making.value = true)}>
      New…
    </button>
  );
  return (
    <Screen
      title="Reminders"
      filters={<Filters choices={[{ name: "status", label: "Status", of: STATUSES }]} />}
      actions={make}
    >
      <KindTabs at="reminders" />
      <Listed
        label="Reminders"
        list={list}
        keyOf={(each) => each.id}
        href={(each) => `${BASE}/reminders/${each.id}`}
        mark={(each) => <Dot mark={MARKS[each.status]} />}
        empty={<Empty>{words.noReminders}</Empty>}
        columns={[
          { label: "what", width: "minmax(0, 1fr)", show: (each) => each.content },
          { label: "by", width: "6rem", as: "quiet", show: (each) => each.trigger_type },
          { label: "priority", width: "5rem", as: "quiet", show: (each) => each.priority },
          { label: "status", width: "6rem", as: "quiet", show: (each) => each.status },
          { label: "next", width: "8rem", as: "figure", show: (each) => <Until at={each.next_due_at} /> },
        ]}
      />
      {making.value && (
        <Form
          title="New reminder"
          action="Set"
          fields={[
            { name: "content", label: "What", kind: "text", required: true },
            { name: "at", label: "When", first: "in 2 h", required: true, hint: words.whenHint },
          ]}
          onSend={async ({ content, at }, key) => {
            const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
            await post("/api/reminders", { content, trigger_type: "time", trigger_value: at, timezone: zone }, key);
            list.refresh();
          }}
          onClose={() => (making.value = false)}
        />
      )}
    </Screen>
  );
}

export function ReminderPage({ id = "" }: { id?: string }) {
  const reminder = useResource<Reminder>(`/api/reminders/${id}`, true);
  const found = reminder.value.value;
  return (
    <Screen
      title="Reminder"
      back={{ href: `${BASE}/reminders`, label: "Reminders" }}
      actions={found && <Actions reminder={found} refresh={reminder.refresh} />}
    >
      <Scroll>
        <Shown of={reminder} label="Loading the reminder">
          {(each) => (
            <>
              <About reminder={each} />
              <ReminderFirings id={each.id} />
            </>
          )}
        </Shown>
      </Scroll>
    </Screen>
  );
}

function ReminderFirings({ id }: { id: string }) {
  const firings = useResource<Page<Firing>>(`/api/schedules/${id}/firings?limit=50`, true);
  const items = firings.value.value?.items ?? [];
  return (
    <Section label="Latest firings">
      <Firings of={items} />
    </Section>
  );
}

function Actions({ reminder, refresh }: { reminder: Reminder; refresh: () => void }) {
  const changing = useSignal(false);
  const gone = useSignal(false);
  const path = `/api/reminders/${reminder.id}`;
  if (gone.value) return <span class="quiet">deleted</span>;
  const open = reminder.status === "pending" || reminder.status === "triggered";
  const snooze = () => post(`${path}/snooze`, { until: new Date(Date.now() + HOUR_MS).toISOString() });
  return (
    <>
      {open && (
        <>
          <Act look="first" do={() => post(`${path}/complete`)} after={refresh}>
            Complete
          </Act>
          <Act do={snooze} after={refresh}>
            In an hour
          </Act>
          <Act do={() => post(`${path}/dismiss`)} after={refresh}>
            Dismiss
          </Act>
          <Act do={() => post(`${path}/trigger`)} after={refresh}>
            Trigger now
          </Act>
        </>
      )}
      <button type="button" onClick={() => (changing.value = true)}>
        Change…
      </button>
      <Act look="fail" sure="Delete this reminder?" do={() => remove(path)} after={() => (gone.value = true)}>
        Delete
      </Act>
      {changing.value && (
        <Form
          title="Change this reminder"
          action="Save"
          fields={[{ name: "content", label: "What", kind: "text", first: reminder.content, required: true }]}
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

function About({ reminder }: { reminder: Reminder }) {
  const trigger = reminder.trigger_value;
  return (
    <Section label="Reminder">
      <p class="prose">{reminder.content}</p>
      <Facts
        of={[
          ["status", reminder.status],
          ["why", reminder.trigger_reason],
          ["trigger", reminder.trigger_type],
          ["on", typeof trigger === "string" ? trigger : trigger ? <code>{JSON.stringify(trigger)}</code> : null],
          ["next", reminder.next_due_at && exact(reminder.next_due_at)],
          ["repeats", reminder.recurrence],
          ["snoozed until", reminder.snoozed_until && exact(reminder.snoozed_until)],
          ["triggered", reminder.triggered_at && <Ago at={reminder.triggered_at} />],
          ["context", reminder.context],
          ["starts", reminder.action && (reminder.action.agent ?? "the default agent")],
          ["set by", reminder.run_id ? <a href={`${BASE}/r/${reminder.run_id}`}>a run</a> : reminder.owner],
          ["thread", reminder.thread_id && <a href={`${BASE}/t/${reminder.thread_id}`}>open</a>],
        ]}
      />
    </Section>
  );
}
