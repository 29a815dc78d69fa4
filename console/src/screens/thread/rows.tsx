/** The rows of a conversation: what people say, what agents say and do, and where the run was interrupted. */

import { useSignal } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect } from "preact/hooks";
import { BASE } from "../../api/space";
import type { Step } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import type { AgentRow, Row } from "../../log/rows";
import type { Break, LiveMessage } from "../../log/run_log";
import { clock, duration, exact, money } from "../../parts/format";
import { Icon } from "../../parts/icon";
import { Markdown } from "../../parts/markdown";
import { words } from "../../words/en";
import { ArtifactCard } from "./artifacts";
import type { ForkPoint } from "./composer";
import { Children } from "./tools/children";
import { CallRow, PlanRow } from "./tools/tools";

interface Props {
  row: Row;
  view: ThreadView;
  me: string | null;
  onFork: (row: AgentRow) => void;
  onEdit: (point: ForkPoint) => void;
}

export function LogRow({ row, view, me, onFork, onEdit }: Props) {
  useEffect(() => view.facts.show(row.runId), [view, row.runId]);
  switch (row.kind) {
    case "user":
      return <UserEntry row={row} view={view} me={me} onEdit={onEdit} />;
    case "agent":
      return <AgentEntry row={row} view={view} onFork={onFork} />;
    case "break":
      return <BreakLine cut={row.cut} steps={view.steps.value.get(row.runId)} />;
    case "note":
      return (
        <div class="entry">
          <span class="n" />
          <p class="quiet note">{row.text}</p>
        </div>
      );
    case "failed":
      return (
        <div class="entry">
          <span class="n" />
          <p class="failure" role="note">
            <b>The run failed.</b> {row.run.error?.message} <span class="mono quiet">{row.run.error?.code}</span>
          </p>
        </div>
      );
  }
}

type UserRow = Extract<Row, { kind: "user" }>;

function UserEntry({ row, view, me, onEdit }: Omit<Props, "row" | "onFork"> & { row: UserRow }) {
  const edit = (): void => {
    const run = view.runs.value.find((each) => each.id === row.runId);
    const first = view.messages.value.find((each) => each.run_id === row.runId)?.id === row.id;
    if (!run || row.sequence === null) return;
    const base = first
      ? { runId: run.base_run_id, sequence: run.base_sequence ?? (run.base_run_id ? row.sequence - 1 : null) }
      : { runId: run.id, sequence: row.sequence - 1 };
    onEdit({ ...base, label: row.sequence, revises: row.id, text: row.text });
  };
  return (
    <div class="entry user">
      <span class="n">{row.sequence ?? ""}</span>
      <div>
        <p class="who">
          <b>{row.by === "" || row.by === me ? "you" : row.by}</b>
          <span title={exact(row.at)}>{row.sequence === null ? "waits its turn" : clock(row.at)}</span>
          {row.sequence !== null && (
            <span class="do">
              <button type="button" class="bare" onClick={edit}>
                Edit
              </button>
            </span>
          )}
        </p>
        <div class="text">
          {row.text.split(/\n{2,}/).map((paragraph, index) => (
            <p key={index}>{paragraph}</p>
          ))}
        </div>
      </div>
    </div>
  );
}

function AgentEntry({ row, view, onFork }: { row: AgentRow; view: ThreadView; onFork: (row: AgentRow) => void }) {
  const open = useSignal(false);
  const plan = row.calls.filter((call) => call.name.startsWith("plan_"));
  const children = row.calls.filter((call) => /^agent_(spawn|message|send)$|^task_create$/.test(call.name));
  const artifacts = row.calls.filter((call) => call.name === "create_artifact" && call.state === "done");
  const others = row.calls.filter(
    (call) => !plan.includes(call) && !children.includes(call) && !artifacts.includes(call),
  );
  const told = stepOf(view.steps.value.get(row.runId), row);
  if (row.abandoned)
    return (
      <div class="entry abandoned">
        <span class="n" />
        <details open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
          <summary class="quiet">An unfinished answer, which was made again</summary>
          {open.value && <div class="text">{row.text}</div>}
        </details>
      </div>
    );
  return (
    <div class="entry">
      <span class="n">
        {row.sequence ?? ""}
        {row.forks > 0 && (
          <span class="forks" title={`${row.forks} more from here`}>
            <Icon name="fork" />
            {row.forks + 1}
          </span>
        )}
      </span>
      <div>
        <p class="who">
          <b>{row.agent}</b>
          <span>{factsOf(view.steps.value.get(row.runId), row) || "\u00a0"}</span>
          {row.sequence !== null && (
            <span class="do">
              {told && (
                <a class="bare-link" href={`${BASE}/r/${row.runId}/context/${told.number}`}>
                  Context
                </a>
              )}
              <button type="button" class="bare" onClick={() => onFork(row)}>
                <Icon name="fork" />
                Fork from {row.sequence}
              </button>
            </span>
          )}
        </p>
        {row.live ? <Growing message={row.live} view={view} /> : row.text !== "" && <Said text={row.text} />}
        {(plan.length > 0 || others.length > 0) && (
          <div class="ledger">
            {plan.length > 0 && <PlanRow calls={plan} />}
            {others.map((call) => (
              <CallRow key={call.id} call={call} />
            ))}
          </div>
        )}
        {children.length > 0 && <Children calls={children} />}
        {artifacts.map((call) => (
          <ArtifactCard key={call.id} call={call} view={view} />
        ))}
      </div>
    </div>
  );
}

const Said = memo(({ text }: { text: string }) => (
  <div class="text">
    <Markdown text={text} />
  </div>
));

/** The one text that a token touches. */
function Growing({ message, view }: { message: LiveMessage; view: ThreadView }) {
  view.text(message.id).value;
  return (
    <>
      {message.reasoning && (
        <details class="reasoning">
          <summary class="quiet">Reasoning</summary>
          <div class="text">{message.reasoning}</div>
        </details>
      )}
      {message.text !== "" && (
        <div class={message.done ? "text" : "text growing"}>
          <Markdown text={message.text} />
        </div>
      )}
    </>
  );
}

/** The model of an answer, how long it took, and what it cost: the step of the same number has them. */
function factsOf(steps: readonly Step[] | undefined, row: AgentRow): string {
  const step = stepOf(steps, row);
  if (!step) return row.live && !row.live.done ? "writes" : "";
  const took =
    step.started_at && step.settled_at ? duration(Date.parse(step.settled_at) - Date.parse(step.started_at)) : "";
  return [step.name.replace(/^[^:]*:/, ""), took, step.usage ? money(step.usage.cost_usd) : ""]
    .filter(Boolean)
    .join(" · ");
}

function stepOf(steps: readonly Step[] | undefined, row: AgentRow): Step | undefined {
  return steps?.filter((each) => each.kind === "model" && each.state === "done")[row.modelCall];
}

function BreakLine({ cut, steps }: { cut: Break; steps: readonly Step[] | undefined }) {
  const later = cut.resumedAt === null ? null : duration(cut.resumedAt - cut.lostAt);
  const { died, next } = workersOf(cut, steps);
  const what =
    cut.kind === "lost"
      ? `${died ? `worker ${died}` : "the worker"} was lost at ${clock(cut.lostAt, true)}`
      : `the model call failed at ${clock(cut.lostAt, true)}`;
  return (
    <div class="entry">
      <span class="n" />
      <p class="break">
        <span>
          {what}
          {cut.kind === "retry" ? ` (${cut.message})` : ""} ·{" "}
          <b>
            {later === null
              ? "nobody went on yet"
              : `${cut.kind === "lost" && next ? `worker ${next}` : "another"} went on ${later} later${cut.step ? `, at step ${cut.step}` : ""}`}
          </b>
          {cut.kind === "lost" && later !== null ? ` · ${words.nothingTwice}` : ""}
        </span>
      </p>
    </div>
  );
}

/** The worker that was lost and the one that went on, by their attempts at the step where it did. */
function workersOf(cut: Break, steps: readonly Step[] | undefined): { died?: string; next?: string } {
  const at = steps?.findIndex((step) => step.number === cut.step) ?? -1;
  const step = steps?.[at];
  if (!step) return {};
  const workers = (step.attempts ?? []).flatMap(({ worker }) => (worker ? [worker] : []));
  const died = workers.length > 1 ? workers.at(-2) : steps?.[at - 1]?.worker;
  const next = workers.at(-1) ?? step.worker;
  return died && next && died !== next ? { died: short(died), next: short(next) } : {};
}

/** The id of a worker begins with the number of its process. */
const short = (worker: string): string => worker.split("-")[0] ?? worker;
