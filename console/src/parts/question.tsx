/** A question: the exact call, where, which rule asks, until when, and what happens if it is lost. */
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { Interrupt } from "../api/types";
import { type Answer, answer, sendings } from "../live/questions";
import { words } from "../words/en";
import { Form } from "./act";
import { Input } from "./answer";
import { Code } from "./code";
import { ago, until } from "./format";
import { useKeys } from "./keys";
import { Dot } from "./status";
import { now } from "./time";

interface Props {
  question: Interrupt;
  agent: string;
  /** Whether the keys a, d and e belong to this question. */
  keyed?: boolean;
  place?: string;
  /** A link to the thread and its title, in the inbox. */
  href?: string;
  thread?: string;
}

export function Question({ question, agent, keyed, place, href, thread }: Props) {
  const id = useId();
  const sent = sendings.value.get(question.id);
  const isApproval = question.kind === "approval";
  const title = isApproval ? `May ${agent} ${verb(question)}?` : (question.message ?? `${agent} asks`);
  const time = Math.max(now.value, Date.now());
  return (
    <section class="ask" aria-labelledby={id} data-question={question.id} tabIndex={-1}>
      <h2 id={id}>
        <Dot mark="waiting" />
        <span>{href ? <a href={href}>{title}</a> : title}</span>
        <span class="until">
          <span class="desk-only">
            asked {ago(question.created_at, time)} · open {until(question.expires_at, time)}
          </span>
          {place && <span class="place">{place}</span>}
        </span>
      </h2>
      {isApproval && <Exactly question={question} />}
      <Facts question={question} {...(thread && { thread })} />
      {question.kind === "approval" && <Approval question={question} {...(keyed && { keyed })} />}
      {question.kind === "input" && <Input question={question} />}
      {question.kind === "client_tool" && <p class="quiet">{words.clientTool}</p>}
      {sent && (
        <p class={sent.state === "refused" ? "fail" : "quiet"} role="status">
          {sent.state === "sending" ? "on its way" : sent.state === "done" ? "sent" : sent.error}
        </p>
      )}
    </section>
  );
}

function verb(question: Interrupt): string {
  const tool = String(question.metadata.tool ?? "this tool");
  return tool === "bash" ? "run this" : `call ${tool}`;
}

/** The call as it would run: a command as a command, anything else as its arguments, texts of several lines as lines. */
function Exactly({ question }: { question: Interrupt }) {
  const args = question.arguments as Record<string, unknown> | null;
  const command = question.metadata.tool === "bash" ? args?.command : undefined;
  const texts = Object.entries(args ?? {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].includes("\n"),
  );
  if (typeof command === "string")
    return (
      <pre tabIndex={0} role="region" aria-label="The exact call">
        <span class="p">$ </span>
        {command}
      </pre>
    );
  const rest = Object.fromEntries(
    Object.entries(args ?? {}).filter(([name]) => !texts.some(([text]) => text === name)),
  );
  return (
    <>
      {(texts.length === 0 || Object.keys(rest).length > 0) && (
        <pre tabIndex={0} role="region" aria-label="The exact call">
          <Code text={JSON.stringify(args === null ? null : rest, null, 2)} language="json" />
        </pre>
      )}
      {texts.map(([name, text]) => (
        <div key={name} class="long-argument">
          <p class="quiet mono">{name}</p>
          <pre tabIndex={0} role="region" aria-label={`The argument ${name}`}>
            {text}
          </pre>
        </div>
      ))}
    </>
  );
}

function Facts({ question, thread }: { question: Interrupt; thread?: string }) {
  const { folder, rule, reason, asking } = question.metadata as Record<string, unknown>;
  const effectful = question.kind === "approval";
  return (
    <dl class="facts">
      {thread && (
        <>
          <dt>thread</dt>
          <dd>{thread}</dd>
        </>
      )}
      {typeof folder === "string" && (
        <>
          <dt>in</dt>
          <dd class="mono">{folder === "." ? "the working folder" : folder}</dd>
        </>
      )}
      {typeof rule === "string" && (
        <>
          <dt>because of</dt>
          <dd>
            <span class="mono">ask {rule}</span>
            <span class="desk-only">
              {Array.isArray(asking) && asking.length > 0 ? ` of ${asking.join(", ")}` : ""}
            </span>
          </dd>
        </>
      )}
      {typeof reason === "string" && (
        <>
          <dt>reason</dt>
          <dd>{reason}</dd>
        </>
      )}
      {effectful && (
        <>
          <dt class="desk-only">if it is lost</dt>
          <dd class="desk-only">{words.lostOutcome}</dd>
          <dt class="phone-fact">open</dt>
          <dd class="phone-fact">{until(question.expires_at, Math.max(now.value, Date.now()))}</dd>
        </>
      )}
    </dl>
  );
}

function Approval({ question, keyed }: { question: Interrupt; keyed?: boolean }) {
  const asking = useSignal<"deny" | "edit" | "always" | null>(null);
  const busy =
    sendings.value.get(question.id)?.state === "sending" || sendings.value.get(question.id)?.state === "done";
  const send = (response: Answer): void => void answer(question, response);
  const offers = (question.metadata.offers ?? []) as string[][];
  const canEdit = question.arguments !== null;
  /** Refused, the words stay in the dialog with the reason beside them. */
  const sendOrSay = async (response: Answer): Promise<void> => {
    if (!(await answer(question, response))) throw new Refusal(sendings.value.get(question.id)?.error);
  };
  return (
    <>
      {keyed && (
        <ApprovalKeys
          onApprove={() => send({ decision: "approve" })}
          onDeny={() => (asking.value = "deny")}
          onEdit={() => (asking.value = "edit")}
        />
      )}
      <div class="do">
        <button type="button" class="first" disabled={busy} onClick={() => send({ decision: "approve" })}>
          Approve {keyed && <kbd>A</kbd>}
        </button>
        <button type="button" disabled={busy} onClick={() => (asking.value = "deny")}>
          Deny… {keyed && <kbd>D</kbd>}
        </button>
        {canEdit && (
          <button type="button" class="bare" disabled={busy} onClick={() => (asking.value = "edit")}>
            Edit {keyed && <kbd>E</kbd>}
          </button>
        )}
        {offers[0] && (
          <button type="button" class="bare end" disabled={busy} onClick={() => (asking.value = "always")}>
            Always <span class="mono desk-only">{short(offers[0].join(", "))}</span>
            <span class="phone-fact">…</span>
          </button>
        )}
      </div>
      {asking.value === "deny" && (
        <Form
          title="Deny this call"
          action="Deny"
          fields={[{ name: "reason", label: "Why? The agent is told." }]}
          onSend={({ reason }) => sendOrSay({ decision: "deny", ...(reason && { reason }) })}
          onClose={() => (asking.value = null)}
        />
      )}
      {asking.value === "edit" && (
        <Form
          title="Approve with other arguments"
          action="Approve these"
          fields={[
            {
              name: "args",
              label: "Arguments, as JSON",
              kind: "text",
              first: JSON.stringify(question.arguments, null, 2),
            },
          ]}
          onSend={({ args = "" }) => sendOrSay({ decision: "approve", arguments: parsed(args) })}
          onClose={() => (asking.value = null)}
        />
      )}
      {asking.value === "always" && (
        <Always
          offers={offers}
          onChoose={(rules) => send({ decision: "always", rules })}
          onClose={() => (asking.value = null)}
        />
      )}
    </>
  );
}

class Refusal extends Error {
  override toString(): string {
    return this.message;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Refusal(`not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function ApprovalKeys(props: { onApprove: () => void; onDeny: () => void; onEdit: () => void }) {
  useKeys({ a: props.onApprove, d: props.onDeny, e: props.onEdit });
  return null;
}

/** The rules that "always" would write, the narrowest first. */
function Always({
  offers,
  onChoose,
  onClose,
}: {
  offers: string[][];
  onChoose: (rules: string[]) => void;
  onClose: () => void;
}) {
  const id = useId();
  const open = (dialog: HTMLDialogElement | null): void => {
    if (dialog && !dialog.open) dialog.showModal();
  };
  return (
    <dialog ref={open} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>Always allow, in this space</h2>
      <p class="quiet">The call runs now, and the rule you choose allows calls like it from now on.</p>
      <div class="choices">
        {offers.map((rules) => (
          <button
            key={rules.join()}
            type="button"
            class="mono"
            onClick={() => {
              onChoose(rules);
              onClose();
            }}
          >
            allow {rules.join(", ")}
          </button>
        ))}
      </div>
      <div class="do">
        <button type="button" class="bare" onClick={onClose}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}

function short(rule: string): string {
  const inner = /^\w+\((.*)\)$/.exec(rule)?.[1] ?? rule;
  return inner.length > 32 ? `${inner.slice(0, 31)}…` : inner;
}
