/** The plan items of all threads by status, blocked ones first. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Virtualizer } from "virtua";
import { patch } from "../../api/client";
import { BASE } from "../../api/space";
import type { Task } from "../../api/types";
import { hints } from "../../live/resource";
import { recent } from "../../live/threads";
import { type Field, Form, type Values } from "../../parts/act";
import { Icon } from "../../parts/icon";
import { type Choice, Menu } from "../../parts/menu";
import { Filters, Screen, useFilters, useList } from "../../parts/screen";
import { Empty, Failure, Loading } from "../../parts/states";
import { PlanTime } from "../../parts/time";
import { words } from "../../words/en";
import "./board.css";

const COLUMNS = [
  ["blocked", "Blocked"],
  ["in_progress", "In progress"],
  ["planned", "Planned"],
  ["completed", "Completed"],
] as const;
const PRIORITIES = [
  ["", "any priority"],
  ["urgent", "urgent"],
  ["high", "high"],
  ["medium", "medium"],
  ["low", "low"],
] as const;
const ENOUGH = 12;
const keyOf = (task: Task): string => `${task.thread_id} ${task.task_id}`;

export function Board() {
  const { query } = useFilters();
  const filters = <Filters choices={[{ name: "priority", label: "Priority", of: PRIORITIES }]} />;
  return (
    <Screen title="Board" note="Plan items of all threads" filters={filters}>
      <div class="board" tabIndex={0} role="region" aria-label="Plan items by status">
        {COLUMNS.map(([status, label]) => (
          <Column key={status} status={status} label={label} priority={query.priority ?? ""} />
        ))}
      </div>
    </Screen>
  );
}

function Column({ status, label, priority }: { status: string; label: string; priority: string }) {
  const list = useList<Task>("/api/tasks", { status, priority }, keyOf);
  const box = useRef<HTMLDivElement>(null);
  const items = list.items.value;
  // A page may hold fewer items than it was asked for, although others follow.
  useEffect(() => {
    if (items && items.length < ENOUGH && list.more.value) void list.readMore();
  });
  const onScroll = (): void => {
    const at = box.current;
    if (at && at.scrollHeight - at.scrollTop - at.clientHeight < 400) void list.readMore();
  };
  return (
    <section class={`column is-${status}`} aria-labelledby={`b-${status}`}>
      <h2 class="label" id={`b-${status}`}>
        {label}
        <span>{items ? `${items.length}${list.more.value ? "+" : ""}` : ""}</span>
      </h2>
      <div class="cards" ref={box} onScroll={onScroll} role="group" aria-label={label} tabIndex={0}>
        {list.error.value && !items && <Failure error={list.error.value} retry={list.refresh} />}
        {!items && !list.error.value && <Loading rows={3} label={`Loading ${label}`} />}
        {items?.length === 0 && <Empty>{words.emptyColumn}</Empty>}
        {items && items.length > 0 && (
          <Virtualizer scrollRef={box} as="ul" item="li">
            {items.map((task) => (
              <Card key={keyOf(task)} task={task} />
            ))}
          </Virtualizer>
        )}
      </div>
    </section>
  );
}

interface Change {
  title: string;
  action: string;
  fields: Field[];
  values: (given: Values) => Record<string, unknown>;
}

const REASON: Field = { name: "reason", label: "Why? The agent is told.", required: true };
const CHANGES: Record<string, Change> = {
  start: { title: "Start this item", action: "Start", fields: [], values: () => ({ status: "in_progress" }) },
  block: {
    title: "Block this item",
    action: "Block",
    fields: [REASON],
    values: (given) => ({ status: "blocked", reason: given.reason }),
  },
  complete: {
    title: "Complete this item",
    action: "Complete",
    fields: [{ name: "conclusion", label: "What came out?", required: true }],
    values: (given) => ({ status: "completed", conclusion: given.conclusion }),
  },
  cancel: {
    title: "Give this item up",
    action: "Give up",
    fields: [REASON],
    values: (given) => ({ status: "cancelled", reason: given.reason }),
  },
};

function Card({ task }: { task: Task }) {
  const doing = useSignal<Change | null>(null);
  const thread = recent.items.value?.find((each) => each.id === task.thread_id)?.title ?? task.agent_type;
  const at = task.start?.message_sequence_num;
  const edit: Change = {
    title: "Edit this item",
    action: "Save",
    fields: [
      { name: "title", label: "Title", first: task.title, required: true },
      { name: "description", label: "Description", kind: "text", first: task.description ?? "" },
      { name: "priority", label: "Priority", kind: "choice", first: task.priority ?? "", of: PRIORITIES.slice(1) },
    ],
    values: (given) => ({ ...given, description: given.description || null }),
  };
  const open = (change: Change | undefined): void => {
    doing.value = change ?? null;
  };
  const ended = task.status === "completed" || task.status === "cancelled";
  const choices: Choice[] = [
    ...(task.status === "in_progress" ? [] : [{ label: "Start", do: () => open(CHANGES.start) }]),
    ...(task.status === "blocked" ? [] : [{ label: "Block…", do: () => open(CHANGES.block) }]),
    { label: "Complete…", do: () => open(CHANGES.complete) },
    { label: "Edit…", do: () => open(edit) },
    { label: "Give up…", do: () => open(CHANGES.cancel), tone: "fail" },
  ];
  return (
    <article class="card">
      <h3>
        <a href={`${BASE}/t/${task.thread_id}${at === undefined ? "" : `?at=${at}`}`}>{task.title}</a>
      </h3>
      {!ended && (
        <Menu label={`Change “${task.title}”`} choices={choices}>
          <Icon name="more" wide />
        </Menu>
      )}
      {(task.reason || task.conclusion) && (
        <p class={task.status === "blocked" ? "wait" : "quiet"}>{task.reason || task.conclusion}</p>
      )}
      <p class="quiet">
        <span>{thread}</span>
        <PlanTime item={task} />
        {task.priority && task.priority !== "medium" && <span class="chip">{task.priority}</span>}
        {(task.subtasks?.length ?? 0) > 0 && (
          <span>
            {task.subtasks?.filter((each) => each.status === "done").length} of {task.subtasks?.length}
          </span>
        )}
      </p>
      {doing.value && (
        <Form
          {...doing.value}
          onSend={async (values) => {
            await patch(`/api/threads/${task.thread_id}/tasks/${task.task_id}`, doing.value?.values(values));
            hints.value += 1; // the item moves to another column
          }}
          onClose={() => (doing.value = null)}
        />
      )}
    </article>
  );
}
