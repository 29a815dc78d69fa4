/** An answer in words or by a choice, and a question that was answered. */
import { useId, useRef } from "preact/hooks";
import type { Interrupt } from "../api/types";
import { answer, describe, sendings } from "../live/questions";
import { Dot } from "./status";
import { Ago } from "./time";

/** A question of an agent: options as buttons, or words of one's own. */
export function Input({ question }: { question: Interrupt }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const options = optionsOf(question);
  const busy = sendings.value.get(question.id)?.state === "sending";
  const send = (event: Event): void => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    if (text) void answer(question, text);
  };
  if (options.length > 0)
    return (
      <div class="do">
        {options.map((option, index) => (
          <button
            key={option}
            type="button"
            class={index === 0 ? "first" : undefined}
            disabled={busy}
            onClick={() => void answer(question, option)}
          >
            {option}
          </button>
        ))}
      </div>
    );
  return (
    <form class="reply" onSubmit={send}>
      <label class="sr" for={id}>
        Your answer
      </label>
      <textarea id={id} ref={field} rows={2} placeholder="Your answer" />
      <button type="submit" class="first" disabled={busy}>
        Answer
      </button>
    </form>
  );
}

function optionsOf(question: Interrupt): string[] {
  const schema = question.response_schema as { enum?: unknown[] } | null;
  return (schema?.enum ?? []).filter((each): each is string => typeof each === "string");
}

/** A question that was answered, in one line. */
export function Answered({ question, agent, href }: { question: Interrupt; agent: string; href: string }) {
  return (
    <a class="answered" href={href}>
      <Dot mark="done" />
      <span class="title">
        {question.kind === "approval" ? `${agent}: ${String(question.metadata.tool ?? "a call")}` : question.message}
      </span>
      <span class="quiet">
        {describe(question.response)}
        {question.answered_by ? ` by ${question.answered_by}` : ""} <Ago at={question.answered_at} />
      </span>
    </a>
  );
}
