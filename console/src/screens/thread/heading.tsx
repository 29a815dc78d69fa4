/** The title of a thread, how its newest run stands, and what can be done with it. */
import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { ApiError, patch, post } from "../../api/client";
import { BASE, inSpace } from "../../api/space";
import { ENDED, type Run } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import { recent } from "../../live/threads";
import { tipsOf } from "../../log/branches";
import { spansOf, timesOf } from "../../log/ruler";
import { Form } from "../../parts/act";
import { count, duration, money } from "../../parts/format";
import { Icon } from "../../parts/icon";
import { useKeys } from "../../parts/keys";
import { type Choice, Menu } from "../../parts/menu";
import { runInput } from "../../parts/run_input";
import { Status } from "../../parts/status";
import { now } from "../../parts/time";

export function Heading({ view, onFork, onSide }: { view: ThreadView; onFork: () => void; onSide: () => void }) {
  const { route } = useLocation();
  const renaming = useSignal(false);
  const problem = useSignal("");
  const run = view.current;
  const thread = view.thread.value;
  const act = (what: () => Promise<unknown>): void => {
    problem.value = "";
    what()
      .then(() => {
        view.refresh();
        recent.refresh();
      })
      .catch((error: unknown) => (problem.value = error instanceof ApiError ? error.message : String(error)));
  };
  const copyLink = (): void => void navigator.clipboard?.writeText(location.href);
  const cancel = (): void => act(() => post(`/api/runs/${run?.id}/cancel`, {}));
  const retry = (): void => act(() => post(`/api/runs/${run?.id}/retry`, {}));
  useKeys({ f: onFork, y: copyLink, Escape: () => route(`${BASE}/threads`) });
  const isLive = run !== null && !ENDED.has(run.status);
  const archived = thread?.status === "archived";
  const choices: Choice[] = [
    { label: "Plan, runs, artifacts", do: onSide },
    { label: "Fork", hint: "Continues from the latest answer on a branch of its own", do: onFork },
    { label: "Rename…", do: () => (renaming.value = true) },
    { label: "Copy the link", do: copyLink },
    { label: "Export as Markdown", do: () => open(inSpace(`/api/threads/${view.id}/export`), "_blank", "noopener") },
    {
      label: archived ? "Unarchive" : "Archive",
      do: () => act(() => post(`/api/threads/${view.id}/${archived ? "unarchive" : "archive"}`)),
    },
  ];
  return (
    <header>
      <div class="names">
        <a class="back phone-only" href={`${BASE}/threads`} aria-label="All threads">
          <Icon name="back" />
        </a>
        <h1>{thread?.title ?? (view.loaded.value ? view.id : "…")}</h1>
        <Numbers view={view} />
        {problem.value && (
          <p class="fail" role="alert">
            {problem.value}
          </p>
        )}
      </div>
      <div class="do">
        {run?.status === "failed" || run?.status === "cancelled" ? (
          <button type="button" onClick={retry}>
            Retry
          </button>
        ) : null}
        {isLive && (
          <button type="button" class="bare" onClick={cancel}>
            Cancel
          </button>
        )}
        <button type="button" class="bare desk-only" title="Fork from here (F)" onClick={onFork}>
          <Icon name="fork" />
          Fork
        </button>
        <CompareWith view={view} />
        <Menu label="More" choices={choices}>
          <Icon name="more" wide />
        </Menu>
      </div>
      {renaming.value && (
        <Form
          title="Rename this thread"
          action="Rename"
          fields={[{ name: "title", label: "Title", first: thread?.title ?? "" }]}
          onSend={async ({ title }) => {
            await patch(`/api/threads/${view.id}`, { title: title || null });
            view.refresh();
            recent.refresh();
          }}
          onClose={() => (renaming.value = false)}
        />
      )}
    </header>
  );
}

/** The ends of the other branches: with one of them, the way to the comparison is direct. */
function CompareWith({ view }: { view: ThreadView }) {
  const { route } = useLocation();
  const others = tipsOf(view.runs.value).filter((run) => run.id !== view.tipId);
  const open = (run: Run): void => route(`${BASE}/t/${view.id}/compare/${view.tipId}/${run.id}`);
  const only = others.length === 1 ? others[0] : undefined;
  useKeys(others[0] ? { c: () => open(only ?? (others.at(-1) as Run)) } : {});
  if (others.length === 0) return null;
  const inside = (
    <>
      <Icon name="compare" />
      <span class="desk-only">Compare</span>
    </>
  );
  if (only)
    return (
      <button
        type="button"
        class="bare"
        aria-label="Compare"
        title="Compare both branches (C)"
        onClick={() => open(only)}
      >
        {inside}
      </button>
    );
  const choices = others.map((run) => ({ label: inputOf(run), hint: run.status, do: () => open(run) }));
  return (
    <Menu label="Compare with" choices={choices.slice(-12).reverse()}>
      {inside}
    </Menu>
  );
}

function inputOf(run: Run): string {
  const text = runInput(run.input);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text || run.id;
}

function Numbers({ view }: { view: ThreadView }) {
  const run = view.current;
  if (!run) return <p>{view.loaded.value ? <Status run={null} /> : " "}</p>;
  const spans = spansOf(view.steps.value.get(run.id) ?? [], [], Math.max(now.value, Date.now()), view.askedAt);
  const { work, wait } = timesOf(spans);
  const budget = run.limits.cost_budget_usd;
  const usage = view.usage.value ?? run.usage;
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  return (
    <p>
      <Status run={run} />
      <span>
        <b>{run.agent_type}</b>
      </span>
      {work > 0 && (
        <span class="desk-only">
          {duration(work)} at work{wait > 1000 ? `, ${duration(wait)} waiting` : ""}
        </span>
      )}
      <span title="This run with its sub-agents">
        {money(usage.cost_usd)} {budget != null && <span class="quiet">of {money(budget)}</span>}
      </span>
      <span class="desk-only">{count(tokens)} tokens</span>
    </p>
  );
}
