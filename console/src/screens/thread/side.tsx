/** What is at the side of a thread: its plan and its runs, the time of the newest run, artifacts, and the raw log. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, url } from "../../api/client";
import { BASE } from "../../api/space";
import type { Page } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import { type Branch, treeOf } from "../../log/branches";
import type { PlannedItem } from "../../log/events";
import { spansOf } from "../../log/ruler";
import { clock, duration, plural } from "../../parts/format";
import { Icon } from "../../parts/icon";
import { runInput } from "../../parts/run_input";
import { Dot, markOf } from "../../parts/status";
import { Ago, now, PlanTook } from "../../parts/time";
import { words } from "../../words/en";
import { ArtifactLine } from "./artifacts";
import { Steps } from "./steps";
import { Told } from "./told";

const TABS = [
  ["plan", "Plan & runs"],
  ["steps", "Steps"],
  ["context", "Context"],
  ["artifacts", "Artifacts"],
  ["log", "Log"],
] as const;

interface Props {
  view: ThreadView;
  tab: string;
  opened: boolean;
  onTab: (tab: string) => void;
  onClose: () => void;
}

export function Side({ view, tab, opened, onTab, onClose }: Props) {
  return (
    <aside aria-label="Of this thread" class={opened ? "opened" : undefined}>
      <div class="tabs">
        {TABS.map(([name, label]) => (
          <button key={name} type="button" class="bare" aria-pressed={tab === name} onClick={() => onTab(name)}>
            {label}
          </button>
        ))}
        <button type="button" class="bare close" onClick={onClose}>
          Close
        </button>
      </div>
      {tab === "steps" ? (
        <Steps view={view} />
      ) : tab === "context" ? (
        <Told view={view} />
      ) : tab === "artifacts" ? (
        <Artifacts view={view} />
      ) : tab === "log" ? (
        <RawLog view={view} />
      ) : (
        <PlanAndRuns view={view} />
      )}
    </aside>
  );
}

function PlanAndRuns({ view }: { view: ThreadView }) {
  return (
    <>
      <Plan view={view} />
      <Runs view={view} />
      <Fall view={view} />
    </>
  );
}

function Plan({ view }: { view: ThreadView }) {
  view.version.value;
  const run = view.current;
  const tasks = (run ? view.logs.get(run.id)?.plan : null) ?? view.tasks.value ?? [];
  const done = tasks.filter((task) => task.status === "completed").length;
  return (
    <section aria-labelledby="h-plan">
      <h2 class="label" id="h-plan">
        Plan{tasks.length > 0 && <span>{`${done} of ${tasks.length} done`}</span>}
      </h2>
      {tasks.length === 0 && <p class="quiet">{words.noPlan}</p>}
      <ol class="plan">
        {tasks.map((task) => (
          <PlanItem key={task.task_id} task={task} />
        ))}
      </ol>
    </section>
  );
}

const PLAN_CLASS: Record<string, string> = {
  completed: "done",
  cancelled: "done",
  in_progress: "now",
  blocked: "stuck",
};

function PlanItem({ task }: { task: PlannedItem }) {
  const note =
    task.status === "blocked"
      ? `Blocked: ${task.reason ?? ""}`
      : task.status === "cancelled"
        ? `Given up: ${task.reason ?? ""}`
        : task.conclusion;
  return (
    <li class={PLAN_CLASS[task.status ?? ""]}>
      <span class="box">{task.status === "completed" && <Icon name="ok" />}</span>
      <div>
        <h3>
          {task.title}
          <span class="sr"> ({task.status?.replace("_", " ")})</span>
          {task.status !== "planned" && task.status !== "blocked" && <PlanTook item={task} />}
        </h3>
        {note && <p class={task.status === "blocked" ? "wait" : undefined}>{note}</p>}
        {task.status === "in_progress" && (task.subtasks?.length ?? 0) > 0 && (
          <ul class="sub">
            {task.subtasks?.map((each) => (
              <li key={each.title} class={each.status === "done" ? "done" : undefined}>
                {each.title}
              </li>
            ))}
          </ul>
        )}
      </div>
    </li>
  );
}

function Runs({ view }: { view: ThreadView }) {
  const tree = treeOf(view.runs.value);
  const branches = view.runs.value.filter((run) => run.base_run_id === null || run.base_sequence !== null).length;
  const shown = new Set(view.chain.map((run) => run.id));
  return (
    <section aria-labelledby="h-tree">
      <h2 class="label" id="h-tree">
        Runs<span>{plural(branches, "branch", "branches")}</span>
      </h2>
      <ul class="tree">
        {tree.map((branch) => (
          <RunLine key={branch.run.id} branch={branch} view={view} shown={shown} />
        ))}
      </ul>
    </section>
  );
}

function RunLine({ branch, view, shown }: { branch: Branch; view: ThreadView; shown: ReadonlySet<string> }) {
  const { run, forks } = branch;
  const text = runInput(run.input);
  const label = run.base_sequence === null ? text || "goes on" : `from ${run.base_sequence}: ${text || "goes on"}`;
  const mark = markOf(run);
  const live = view.logs.get(run.id)?.messages.at(-1);
  return (
    <li>
      <a
        href={`${BASE}/t/${view.id}/${run.id}`}
        aria-current={run.id === view.tipId ? "true" : undefined}
        class={shown.has(run.id) ? "" : "aside"}
      >
        <Dot mark={mark} />
        <span>{label}</span>
        <span class={mark === "waiting" ? "wait" : mark === "live" ? "live" : "quiet"}>
          {mark === "waiting" || mark === "live" || mark === "failed" ? (
            run.status
          ) : (
            <Ago at={run.completed_at ?? run.created_at} />
          )}
        </span>
      </a>
      {mark === "live" && !shown.has(run.id) && live && <Tail view={view} id={live.id} text={() => live.text} />}
      {forks.length > 0 && (
        <ul>
          {forks.map((each) => (
            <RunLine key={each.run.id} branch={each} view={view} shown={shown} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** The end of what another branch writes now. */
function Tail({ view, id, text }: { view: ThreadView; id: string; text: () => string }) {
  view.text(id).value;
  return <p class="tail">… {text().slice(-90)}</p>;
}

const MAX_LANES = 40;

function Fall({ view }: { view: ThreadView }) {
  const run = view.current;
  const steps = run ? (view.steps.value.get(run.id) ?? []) : [];
  const all = spansOf(steps, [], Math.max(now.value, Date.now()), view.askedAt);
  const spans = all.filter((span) => span.kind !== "fold" && span.kind !== "lost" && !span.name.startsWith("plan_"));
  if (spans.length === 0) return null;
  const shown = spans.slice(-MAX_LANES);
  const total = shown.reduce((sum, span) => sum + span.long, 0);
  let at = 0;
  return (
    <section aria-labelledby="h-fall">
      <h2 class="label" id="h-fall">
        Time<span>{plural(steps.length, "step")}</span>
      </h2>
      <ol class="fall">
        {shown.map((span) => {
          const left = (at / total) * 100;
          at += span.long;
          const kind = { model: "m", child: "c", wait: "w", tool: "", lost: "", fold: "" }[span.kind];
          return (
            <li key={span.number} class={kind}>
              <span>{span.kind === "model" ? "model" : span.name}</span>
              <span class="lane">
                <i style={{ "--at": `${left}%`, "--for": `${(span.long / total) * 100}%` }} />
              </span>
              <span>
                {span.open && span.kind === "wait"
                  ? duration(span.to - (view.askedAt ?? span.from))
                  : duration(span.to - span.from)}
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** Each artifact in its newest version; the others are chosen where it is opened. */
function Artifacts({ view }: { view: ThreadView }) {
  const all = view.artifacts.value;
  const newest = all.filter((each, index) => all.findIndex((other) => other.id === each.id) === index);
  return (
    <section aria-labelledby="h-art">
      <h2 class="label" id="h-art">
        Artifacts<span>{newest.length}</span>
      </h2>
      {newest.length === 0 && <p class="quiet">{words.noArtifacts}</p>}
      {newest.map((artifact) => (
        <ArtifactLine key={artifact.id} id={artifact.id} title={artifact.title} known={artifact} />
      ))}
    </section>
  );
}

interface RawEvent {
  seq: number;
  data: { type: string; name?: string; timestamp: number };
}

/** The events of the newest run as they are stored. */
function RawLog({ view }: { view: ThreadView }) {
  const events = useSignal<RawEvent[]>([]);
  const more = useSignal(true);
  const run = view.current?.id;
  const read = async (): Promise<void> => {
    const cursor = events.value.at(-1)?.seq;
    const page = await get<Page<RawEvent>>(url(`/api/runs/${run}/events`, { limit: 100, cursor }));
    events.value = [...events.value, ...page.items];
    more.value = page.next_cursor !== null;
  };
  useEffect(() => {
    events.value = [];
    if (run) void read().catch(() => {});
  }, [run]);
  return (
    <section aria-labelledby="h-log">
      <h2 class="label" id="h-log">
        Log<span>{plural(events.value.length, "event")}</span>
      </h2>
      <ol class="raw">
        {events.value.map((event) => (
          <li key={event.seq}>
            <details>
              <summary>
                <span class="quiet">{event.seq}</span> {event.data.name ?? event.data.type.toLowerCase()}
                <span class="quiet">{clock(event.data.timestamp, true)}</span>
              </summary>
              <pre tabIndex={0}>{JSON.stringify(event.data, null, 2)}</pre>
            </details>
          </li>
        ))}
      </ol>
      {more.value && (
        <button type="button" onClick={() => void read()}>
          More
        </button>
      )}
    </section>
  );
}
