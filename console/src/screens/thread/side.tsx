/** What is at the side of a thread: its plan and its runs, the time of the newest run, artifacts, and the raw log. */
import type { ThreadView } from "../../live/thread";
import type { PlannedItem } from "../../log/events";
import { spansOf } from "../../log/ruler";
import { duration, plural } from "../../parts/format";
import { Icon } from "../../parts/icon";
import { now, PlanTook } from "../../parts/time";
import { words } from "../../words/en";
import { ArtifactLine } from "./artifacts";
import { RawLog } from "./raw_log";
import { Runs } from "./run_tree";
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
        <button type="button" class="bare close" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
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
