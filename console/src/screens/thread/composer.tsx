/** Words to an agent. What sending means is written on it; drafts are kept by thread until they are sent. */
import { type ReadonlySignal, type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso";
import { ApiError, newKey, post } from "../../api/client";
import { BASE } from "../../api/space";
import { ENDED, type Interrupt, type Run } from "../../api/types";
import { answer } from "../../live/questions";
import type { ThreadView } from "../../live/thread";
import { Answerer, type Chosen, keepChosen, readChosen } from "../../parts/answerer";
import { type Choice, Menu } from "../../parts/menu";
import { words } from "../../words/en";

export interface ForkPoint {
  /** The run to continue from; null begins a new root. */
  runId: string | null;
  sequence: number | null;
  label: number | null;
  revises: string | null;
  text: string;
}

type Mode = "begin" | "steer" | "enqueue" | "interrupt" | "fork" | "answer" | "deny";

const MEANING: Record<Mode, string> = {
  begin: words.begins,
  steer: words.heard,
  enqueue: words.waitsTurn,
  interrupt: words.interrupts,
  fork: words.branches,
  answer: words.answers,
  deny: words.denies,
};

interface Props {
  view: ThreadView;
  open: ReadonlySignal<Interrupt[]>;
  fork: Signal<ForkPoint | null>;
}

export function Composer({ view, open, fork }: Props) {
  const { route } = useLocation();
  const field = useRef<HTMLTextAreaElement>(null);
  const error = useSignal("");
  const busy = useSignal(false);
  const wanted = useSignal<Mode>("steer");
  const chosen = useSignal<Chosen>(readChosen(view.id));
  const key = useRef(newKey());
  const draft = `holdfast.draft.${view.id}`;
  const run = view.current;
  const question = open.value[0];
  const mode = modeOf(run, question, fork.value, wanted.value);
  useLayoutEffect(() => {
    if (!fork.value || !field.current) return;
    if (fork.value.text) field.current.value = fork.value.text;
    field.current.focus();
  }, [fork.value]);
  const agent = chosen.value.agent_type ?? run?.agent_type ?? view.thread.value?.agent_type ?? "";
  const choose = (next: Chosen): void => {
    chosen.value = next;
    keepChosen(view.id, next);
  };
  const send = async (): Promise<void> => {
    const text = field.current?.value.trim() ?? "";
    if (text === "" || busy.value) return;
    busy.value = true;
    error.value = "";
    try {
      const context = { question, fork: fork.value, run, key: key.current, ...chosen.value };
      const started = await say(view, mode, text, context);
      if (field.current) field.current.value = "";
      sessionStorage.removeItem(draft);
      key.current = newKey();
      const branched = fork.value !== null || mode === "fork";
      fork.value = null;
      if (started && branched) route(`${BASE}/t/${view.id}/${started.id}`);
      view.refresh();
    } catch (failed) {
      error.value = failed instanceof ApiError ? failed.message : String(failed);
    } finally {
      busy.value = false;
    }
  };
  const choices: Choice[] = (["steer", "enqueue", "interrupt", "fork"] as const).map((each) => ({
    label: { steer: "Steer", enqueue: "Wait its turn", interrupt: "Instead", fork: "Branch" }[each],
    hint: MEANING[each],
    do: () => (wanted.value = each),
  }));
  if (view.thread.value?.status === "archived") return <p class="say quiet">{words.archived}</p>;
  const isBusy = mode === "steer" || mode === "enqueue" || mode === "interrupt" || mode === "fork";
  return (
    <form
      class="say"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {fork.value && (
        <p class="fork-note">
          {fork.value.revises
            ? `Another version of ${fork.value.label}`
            : `A branch from ${fork.value.label ?? "here"}`}
          {waitOf(view, fork.value)}
          <button type="button" class="bare" onClick={() => (fork.value = null)}>
            Leave it
          </button>
        </p>
      )}
      <div class="box">
        <label class="sr" for="words">
          Message
        </label>
        <textarea
          id="words"
          ref={field}
          rows={1}
          placeholder={
            mode === "begin" ? words.placeholderBegin : isBusy ? words.placeholderSteer : words.placeholderAnswer
          }
          aria-describedby="meaning"
          defaultValue={sessionStorage.getItem(draft) ?? ""}
          onInput={(event) => sessionStorage.setItem(draft, event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") event.currentTarget.blur();
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            void send();
          }}
        />
        <div class="do">
          {isBusy && !fork.value && (
            <Menu label="What sending means" choices={choices}>
              {choices[["steer", "enqueue", "interrupt", "fork"].indexOf(mode)]?.label}
            </Menu>
          )}
          {mode === "begin" || mode === "enqueue" || mode === "interrupt" || mode === "fork" ? (
            <Answerer
              agent={agent}
              model={chosen.value.model ?? null}
              last={agent === run?.agent_type ? run.model : null}
              onAgent={(agent_type) => choose({ agent_type })}
              onModel={(model) => choose({ ...chosen.value, model })}
            />
          ) : (
            <span class="quiet desk-only">{agent}</span>
          )}
          <button type="submit" disabled={busy.value}>
            Send
          </button>
        </div>
      </div>
      <p id="meaning" class="meaning quiet">
        {error.value ? (
          <span class="fail" role="alert">
            {error.value}
          </span>
        ) : fork.value ? (
          words.forks
        ) : (
          MEANING[mode]
        )}
      </p>
    </form>
  );
}

/** What a branch has to wait for: the server refuses one of a run that waits for a person. */
function waitOf(view: ThreadView, fork: ForkPoint): string {
  const base = view.runs.value.find((run) => run.id === fork.runId);
  if (base === undefined || ENDED.has(base.status)) return "";
  return `. ${base.status_reason === "person" ? words.forkRefused : words.forkWaits}`;
}

function modeOf(run: Run | null, question: Interrupt | undefined, fork: ForkPoint | null, wanted: Mode): Mode {
  if (fork || !run || ENDED.has(run.status)) return "begin";
  if (question) return question.kind === "approval" ? "deny" : "answer";
  return wanted;
}

interface Context extends Chosen {
  question: Interrupt | undefined;
  fork: ForkPoint | null;
  run: Run | null;
  key: string;
}

/** Send words the way that the composer said, and return the run that they began. */
async function say(
  view: ThreadView,
  mode: Mode,
  text: string,
  { question, fork, run, key, agent_type, model }: Context,
): Promise<Run | null> {
  if ((mode === "answer" || mode === "deny") && question) {
    const sent = await answer(question, mode === "deny" ? { decision: "deny", reason: text } : text);
    if (!sent) throw new ApiError("REFUSED", "the answer was refused: see the question", 409);
    return null;
  }
  if (mode === "steer" && run) {
    await post(`/api/runs/${run.id}/messages`, { content: text }, key);
    return null;
  }
  const message = { content: text, ...(fork?.revises && { revises: fork.revises }) };
  const base = fork
    ? {
        base_run_id: fork.runId,
        ...(fork.runId !== null && fork.sequence !== null && { base_sequence: fork.sequence }),
      }
    : run && mode === "begin"
      ? { base_run_id: run.id }
      : {};
  const on_busy = mode === "interrupt" || mode === "fork" ? mode : "enqueue";
  return post<Run>(
    `/api/threads/${view.id}/runs`,
    { messages: [message], on_busy, ...base, ...(agent_type && { agent_type }), ...(model && { model }) },
    key,
  );
}
