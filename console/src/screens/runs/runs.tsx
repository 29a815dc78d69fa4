/** All runs of the space, newest first, by status, agent, tag, model and time. */
import { BASE } from "../../api/space";
import { type DetailedRun, ENDED } from "../../api/types";
import { firstAgent } from "../../parts/answerer";
import { duration, money } from "../../parts/format";
import { Listed } from "../../parts/rows";
import { runInput } from "../../parts/run_input";
import { Filters, Screen, useFilters, useList } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot, markOf, statusWord } from "../../parts/status";
import { Ago, now } from "../../parts/time";
import { words } from "../../words/en";

export { RunPage } from "./run_page";

const STATUSES = [
  ["", "any status"],
  ["running", "running"],
  ["waiting", "waiting"],
  ["queued", "queued"],
  ["pending", "pending"],
  ["completed", "completed"],
  ["failed", "failed"],
  ["cancelled", "cancelled"],
] as const;
const SPANS = [
  ["", "any time"],
  ["1", "latest day"],
  ["7", "latest week"],
  ["30", "latest month"],
] as const;
const MINUTE_MS = 60_000;

export function Runs() {
  const { query } = useFilters();
  const { status, agent, tag, model } = query;
  const list = useList<DetailedRun>("/api/runs", {
    status,
    agent_type: agent,
    tag,
    model,
    memory_id: query.memory_id,
    skill: query.skill,
    from: query.days ? since(Number(query.days)) : "",
    tree_usage: "true",
  });
  const filters = (
    <>
      <Filters
        search={{ name: "agent", label: "Agent" }}
        choices={[
          { name: "status", label: "Status", of: STATUSES },
          { name: "days", label: "Time", of: SPANS },
        ]}
      />
      <Field name="model" label="Model" />
      <Field name="tag" label="Tag" />
    </>
  );
  const used = query.skill ? `with the skill ${query.skill}` : query.memory_id ? "that were told one memory" : null;
  const note = used && (
    <>
      {used}, <a href={`${BASE}/runs`}>show all</a>
    </>
  );
  return (
    <Screen title="Runs" note={note} filters={filters}>
      <Listed
        label="Runs"
        list={list}
        keyOf={(run) => run.id}
        href={(run) => `${BASE}/t/${run.thread_id}/${run.id}?side=steps`}
        mark={(run) => <Dot mark={markOf(run)} />}
        empty={<Empty command={words.startCommand(firstAgent())}>{words.noRuns}</Empty>}
        columns={[
          { label: "input", width: "minmax(0, 1fr)", show: inputOf },
          { label: "agent", width: "7rem", as: "quiet", show: (run) => run.agent_type },
          { label: "model", width: "9rem", as: "desk", show: (run) => run.model_used ?? run.model },
          { label: "status", width: "8rem", as: "quiet", show: (run) => <Word run={run} /> },
          { label: "took", width: "5rem", as: "figure", show: tookOf },
          { label: "cost of the tree", width: "6rem", as: "figure", show: costOf },
          { label: "when", width: "6rem", as: "figure", show: (run) => <Ago at={run.created_at} /> },
        ]}
      />
    </Screen>
  );
}

/** A filter by an exact word, kept in the address. */
function Field({ name, label }: { name: string; label: string }) {
  const { query, set } = useFilters();
  return (
    <input
      class="short"
      type="search"
      placeholder={label}
      aria-label={label}
      defaultValue={query[name] ?? ""}
      onChange={(event) => set({ [name]: event.currentTarget.value.trim() })}
    />
  );
}

function Word({ run }: { run: DetailedRun }) {
  const mark = markOf(run);
  const tone = mark === "waiting" ? "wait" : mark === "live" ? "live" : mark === "failed" ? "fail" : undefined;
  return (
    <span class={tone} title={run.error?.message}>
      {statusWord(run)}
    </span>
  );
}

const inputOf = (run: DetailedRun): string => runInput(run.input) || run.id;

const costOf = (run: DetailedRun): string => money((run.tree_usage ?? run.usage).cost_usd);

function tookOf(run: DetailedRun): string {
  if (!run.started_at) return "";
  const end = ENDED.has(run.status) ? Date.parse(run.completed_at ?? run.started_at) : Math.max(now.value, Date.now());
  return duration(end - Date.parse(run.started_at));
}

/** Whole minutes, so that the address of the list stays the same while it is looked at. */
function since(days: number): string {
  const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  return new Date(now - days * 24 * 60 * MINUTE_MS).toISOString();
}
