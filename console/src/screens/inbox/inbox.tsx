/** Open questions, oldest first, and the last ones that were answered. */
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "../../api/client";
import { BASE } from "../../api/space";
import type { Interrupt, Run } from "../../api/types";
import { answer, answered, questions, questionsError, readAnswered, refreshQuestions } from "../../live/questions";
import { recent } from "../../live/threads";
import { Answered } from "../../parts/answer";
import { plural } from "../../parts/format";
import { useKeys } from "../../parts/keys";
import { Question } from "../../parts/question";
import { useTitle } from "../../parts/screen";
import { Empty, Failure, Loading } from "../../parts/states";
import { words } from "../../words/en";
import "./inbox.css";

/** The runs that ask: the agent's name, and the thread that shows the question. */
const askers = signal<ReadonlyMap<string, Run>>(new Map());

export function Inbox() {
  useTitle("Inbox");
  const open = questions.value;
  const at = useSignal(0);
  const picked = useSignal<ReadonlySet<string>>(new Set());
  useEffect(() => {
    refreshQuestions();
    void readAnswered().catch(() => {});
  }, [open?.length]);
  useEffect(() => void readAskers([...(open ?? []), ...answered.value]), [open, answered.value]);
  const move = (step: number): void => {
    at.value = Math.max(0, Math.min((open?.length ?? 1) - 1, at.value + step));
    document.querySelectorAll<HTMLElement>("main .ask")[at.value]?.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  return (
    <main id="main" tabIndex={-1} class="screen inbox">
      <header>
        <h1>Inbox</h1>
        {open && open.length > 0 && <p>{plural(open.length, "question")} open</p>}
      </header>
      <div class="scroll">
        {questionsError.value && !open && <Failure error={questionsError.value} retry={refreshQuestions} />}
        {!open && !questionsError.value && <Loading rows={3} label="Loading questions" />}
        {open?.length === 0 && (
          <Empty>
            {words.noQuestions} {words.noQuestionsNext}
          </Empty>
        )}
        {open && open.length > 1 && <Several open={open} picked={picked} />}
        <ol class="asks">
          {open?.map((question, index) => (
            <li key={question.id}>
              {open.length > 1 && question.kind === "approval" && <Pick id={question.id} picked={picked} />}
              <Question
                question={question}
                agent={askers.value.get(question.run_id)?.agent_type ?? "the agent"}
                keyed={index === Math.min(at.value, open.length - 1)}
                place={`${index + 1} of ${open.length}`}
                href={threadOf(question)}
                {...titleOf(question)}
              />
            </li>
          ))}
        </ol>
        {answered.value.length > 0 && (
          <section class="past" aria-labelledby="past">
            <h2 class="label" id="past">
              Answered
            </h2>
            {answered.value.map((question) => (
              <Answered
                key={question.id}
                question={question}
                agent={askers.value.get(question.run_id)?.agent_type ?? "the agent"}
                href={threadOf(question)}
              />
            ))}
          </section>
        )}
      </div>
    </main>
  );
}

function threadOf(question: Interrupt): string {
  const run = askers.value.get(question.run_id);
  return `${BASE}/t/${run?.root_thread_id ?? question.thread_id}/${question.root_run_id}`;
}

function titleOf(question: Interrupt): { thread?: string } {
  const id = askers.value.get(question.run_id)?.root_thread_id ?? question.thread_id;
  const title = recent.items.value?.find((thread) => thread.id === id)?.title;
  return title ? { thread: title } : {};
}

async function readAskers(asked: Interrupt[]): Promise<void> {
  const missing = new Set(asked.map((each) => each.run_id).filter((id) => !askers.value.has(id)));
  for (const id of missing) {
    const run = await get<Run>(`/api/runs/${id}`).catch(() => null);
    if (run) askers.value = new Map(askers.value).set(id, run);
  }
}

type Picked = { value: ReadonlySet<string> };

function Pick({ id, picked }: { id: string; picked: Picked }) {
  const toggle = (): void => {
    const next = new Set(picked.value);
    if (!next.delete(id)) next.add(id);
    picked.value = next;
  };
  return (
    <label class="pick">
      <input type="checkbox" checked={picked.value.has(id)} onChange={toggle} />
      <span class="sr">Choose this question</span>
    </label>
  );
}

/** Answer the chosen approvals one after the other. "Always" is given one at a time only. */
function Several({ open, picked }: { open: Interrupt[]; picked: Picked }) {
  const chosen = open.filter((each) => picked.value.has(each.id));
  if (chosen.length === 0) return null;
  const all = async (decision: "approve" | "deny"): Promise<void> => {
    for (const each of chosen) await answer(each, { decision });
    picked.value = new Set();
  };
  return (
    <div class="several" role="group" aria-label="Chosen questions">
      <span>{plural(chosen.length, "call")} chosen</span>
      <button type="button" class="first" onClick={() => void all("approve")}>
        Approve them
      </button>
      <button type="button" onClick={() => void all("deny")}>
        Deny them
      </button>
    </div>
  );
}
