/** The runs of a thread as a tree of branches, the newest of them first read. */
import { useSignal } from "@preact/signals";
import { BASE } from "../../api/space";
import type { ThreadView } from "../../live/thread";
import { type Branch, treeOf } from "../../log/branches";
import { plural } from "../../parts/format";
import { runInput } from "../../parts/run_input";
import { Dot, markOf } from "../../parts/status";
import { Ago } from "../../parts/time";

const RUN_LINES = 30;

export function Runs({ view }: { view: ThreadView }) {
  const lines = useSignal(RUN_LINES);
  const runs = view.runs.value;
  const tree = treeOf(runs.filter((run, index) => index < lines.value || run.id === view.tipId));
  const branches = runs.filter((run) => run.base_run_id === null || run.base_sequence !== null).length;
  const earlier = view.hasMoreRuns.value || runs.length > lines.value;
  const showEarlier = (): void => {
    lines.value += RUN_LINES;
    if (runs.length < lines.value) void view.readMoreRuns();
  };
  const shown = new Set(view.chain.map((run) => run.id));
  return (
    <section aria-labelledby="h-tree">
      <h2 class="label" id="h-tree">
        Runs
        <span>
          {view.hasMoreRuns.value ? `${runs.length} and more` : plural(Math.max(branches, 1), "branch", "branches")}
        </span>
      </h2>
      {earlier && (
        <button type="button" class="bare earlier" onClick={showEarlier}>
          Earlier runs
        </button>
      )}
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
