/** On a phone an open question is pinned above the tabs, and the task in progress above it. */
import type { ReadonlySignal } from "@preact/signals";
import type { Interrupt } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import { Question } from "../../parts/question";

export function Pinned({ view, open }: { view: ThreadView; open: ReadonlySignal<Interrupt[]> }) {
  const tasks = view.tasks.value ?? [];
  const current = tasks.find((task) => task.status === "in_progress");
  const question = open.value[0];
  return (
    <div class="phone-only under">
      {current && (
        <div class="step-line">
          <i class="dot" />
          <b>{current.title}</b>
          <span>
            {tasks.indexOf(current) + 1} of {tasks.length}
          </span>
        </div>
      )}
      {question && (
        <div class="pinned">
          <Question
            key={question.id}
            question={question}
            agent={view.runs.value.find((run) => run.id === question.run_id)?.agent_type ?? "the agent"}
            {...(open.value.length > 1 && { place: `1 of ${open.value.length}` })}
          />
        </div>
      )}
    </div>
  );
}
