/** A thread: its title, its run on one line, the conversation of a branch, the composer, and what is at the side. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useLocation } from "preact-iso";
import { questions } from "../../live/questions";
import { ThreadView } from "../../live/thread";
import { forkPoints } from "../../log/branches";
import { type AgentRow, type Row, rowOfStep, rowsOf } from "../../log/rows";
import { useTitle } from "../../parts/screen";
import { Failure, Loading } from "../../parts/states";
import { Composer, type ForkPoint } from "./composer";
import { Heading } from "./heading";
import { Log } from "./log";
import { Pinned } from "./pinned";
import { Ruler } from "./ruler";
import { Side } from "./side";
import "./thread.css";
import "./side.css";

interface Props {
  thread: string;
  run?: string;
  me: string | null;
}

export function Thread({ thread, run, me }: Props) {
  const view = useMemo(() => new ThreadView(thread, run ?? null), [thread, run]);
  useEffect(() => view.open(), [view]);
  useTitle(view.thread.value?.title ?? "");
  if (view.error.value && !view.loaded.value)
    return (
      <main id="main" tabIndex={-1} class="screen">
        <h1 class="sr">Thread</h1>
        <Failure error={view.error.value} retry={() => void view.read()} />
      </main>
    );
  return <Loaded key={`${thread}/${run ?? ""}`} view={view} me={me} />;
}

function Loaded({ view, me }: { view: ThreadView; me: string | null }) {
  const { query, route, path } = useLocation();
  const fork = useSignal<ForkPoint | null>(null);
  const rows = useComputed<Row[]>(() => {
    view.version.value;
    const chain = view.chain;
    const logs = new Map(
      chain.flatMap((run) => (view.logs.has(run.id) ? [[run.id, view.logs.get(run.id)] as const] : [])),
    );
    return rowsOf({
      runs: chain,
      messages: view.messages.value,
      logs: logs as Map<string, NonNullable<ReturnType<typeof view.logs.get>>>,
      forks: forkPoints(view.runs.value, chain),
    });
  });
  const open = useComputed(() => {
    const own = new Set(view.runs.value.map((run) => run.id));
    return (questions.value ?? []).filter((each) => own.has(each.run_id) || own.has(each.root_run_id));
  });
  const side = query.side ?? "plan";
  const setSide = (next: string): void => route(`${path}?side=${next}`, true);
  const forkFrom = (row: AgentRow | null): void => {
    const run = row?.runId ?? view.current?.id;
    if (run)
      fork.value = { runId: run, sequence: row?.end ?? null, label: row?.sequence ?? null, revises: null, text: "" };
  };
  const goTo = useSignal<number | null>(null);
  const goToStep = (step: number): void => {
    const run = view.current?.id ?? "";
    goTo.value = rowOfStep(rows.value, run, view.steps.value.get(run) ?? [], step);
  };
  return (
    <>
      <main id="main" tabIndex={-1} class="thread-view">
        <Heading view={view} onFork={() => forkFrom(lastAnswer(rows.value))} onSide={() => setSide("plan")} />
        <Ruler view={view} onGo={goToStep} />
        {view.loaded.value ? (
          <Log
            view={view}
            rows={rows}
            open={open}
            me={me}
            wanted={goTo}
            onFork={forkFrom}
            onEdit={(point) => (fork.value = point)}
          />
        ) : (
          <Loading rows={8} label="Loading the conversation" />
        )}
        <Pinned view={view} open={open} />
        <Composer view={view} open={open} fork={fork} />
      </main>
      <Side
        view={view}
        tab={side}
        onTab={setSide}
        opened={query.side !== undefined}
        onClose={() => route(path, true)}
      />
    </>
  );
}

function lastAnswer(rows: readonly Row[]): AgentRow | null {
  return (
    rows.findLast((row): row is AgentRow => row.kind === "agent" && row.sequence !== null && !row.abandoned) ?? null
  );
}
