/** What the model was told at one step, what changed since its call before, and why each memory, skill and rule is there. */
import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { url } from "../../api/client";
import { BASE } from "../../api/space";
import type { Run, RunContext, RunSkills } from "../../api/types";
import { lineDiff, messagesOf, type Part, partsOf, type Told } from "../../log/context_diff";
import { ContextBar } from "../../parts/context_bar";
import { Diff } from "../../parts/diff";
import { count, plural } from "../../parts/format";
import { useKeys } from "../../parts/keys";
import { Screen, Scroll, Section, Shown, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

type Context = NonNullable<RunContext["context"]>;

export function ContextPage({ run = "", step }: { run?: string; step?: string }) {
  const { route } = useLocation();
  const found = useResource<RunContext>(url(`/api/runs/${run}/context`, { step }));
  const steps = found.value.value?.steps ?? [];
  const at = found.value.value?.context?.step ?? 0;
  const here = steps.indexOf(at);
  const [previous, next] = [steps[here - 1], steps[here + 1]];
  const go = (to: number | undefined): void => {
    if (to !== undefined) route(`${BASE}/r/${run}/context/${to}`);
  };
  useKeys({ j: () => go(next), k: () => go(previous) });
  const actions = (
    <>
      <button type="button" disabled={previous === undefined} onClick={() => go(previous)}>
        Call before
      </button>
      <button type="button" disabled={next === undefined} onClick={() => go(next)}>
        Next call
      </button>
      <Copy context={found.value.value?.context ?? null} />
    </>
  );
  return (
    <Screen
      title={`Context at step ${at || (step ?? "")}`}
      note={<Where run={run} at={here} of={steps.length} />}
      back={{ href: `${BASE}/r/${run}`, label: "Run" }}
      actions={actions}
    >
      <Scroll>
        <Shown of={found} label="Loading the context">
          {({ context }) =>
            context === null ? (
              <Empty>{words.noContext}</Empty>
            ) : (
              <Beside key={`${run} ${context.step}`} run={run} context={context} previous={previous ?? null} />
            )
          }
        </Shown>
      </Scroll>
    </Screen>
  );
}

function Where({ run, at, of }: { run: string; at: number; of: number }) {
  const found = useResource<Run>(`/api/runs/${run}`);
  return (
    <>
      <b>{found.value.value?.agent_type}</b>
      <span>
        model call {at + 1} of {of}
      </span>
    </>
  );
}

function Copy({ context }: { context: Context | null }) {
  if (context === null) return null;
  return (
    <button type="button" onClick={() => void navigator.clipboard?.writeText(JSON.stringify(context, null, 2))}>
      Copy
    </button>
  );
}

/** The context with that of the call before, if there is one. */
function Beside({ run, context, previous }: { run: string; context: Context; previous: number | null }) {
  const step = previous ?? context.step;
  const before = useResource<RunContext>(url(`/api/runs/${run}/context`, { step }));
  return (
    <Shown of={before} label="Loading the call before">
      {(found) => <Parts run={run} context={context} before={previous === null ? null : found.context} />}
    </Shown>
  );
}

function Parts({ run, context, before }: { run: string; context: Context; before: Context | null }) {
  const parts = partsOf(context, before);
  const messages = messagesOf(context, before);
  const fresh = messages.filter((message) => message.isNew).length;
  const tools = Array.isArray(context.tools) ? (context.tools as { name?: string }[]) : [];
  return (
    <>
      <Section label="Tokens" note={`${context.model}${before ? `, beside step ${before.step}` : ""}`}>
        <ContextBar context={context} before={before} />
        {!context.complete && <p class="wait">{words.contextIncomplete}</p>}
        {context.compaction_through != null && (
          <p class="quiet">Messages up to {context.compaction_through} were compacted.</p>
        )}
      </Section>
      <Section label="System prompt" note={plural(parts.length, "part")}>
        {parts.map((part) => (
          <PartOf key={part.name} part={part} />
        ))}
      </Section>
      <Reasons run={run} context={context} before={before} />
      <Section label="Messages" note={`${plural(messages.length, "message")}${before ? `, ${fresh} new` : ""}`}>
        <Messages messages={messages} />
      </Section>
      <Section label="Tools" note={plural(tools.length, "tool")}>
        <p class="chips">
          {tools.map((tool, index) => (
            <span key={index} class="chip mono">
              {nameOf(tool)}
            </span>
          ))}
        </p>
      </Section>
    </>
  );
}

function nameOf(tool: unknown): string {
  if (typeof tool === "string") return tool;
  const { name, function: of } = tool as { name?: string; function?: { name?: string } };
  return name ?? of?.name ?? "";
}

const TONES = { same: "quiet", new: "add", changed: "wait", gone: "fail" } as const;
const CHANGES = { same: "as before", new: "new", changed: "changed", gone: "gone" } as const;

function PartOf({ part }: { part: Part }) {
  const changed = part.change === "changed" || part.change === "gone";
  return (
    <details class="told" open={part.change !== "same"}>
      <summary>
        <span class="name">{part.name.replaceAll("_", " ")}</span>
        <span class={TONES[part.change]}>{CHANGES[part.change]}</span>
        <b>{count(part.tokens)}</b>
      </summary>
      {changed && <Diff text={lineDiff(part.before, part.text)} path={part.name} />}
      {!changed && (
        <pre class="text" tabIndex={0} role="region" aria-label={part.name}>
          {part.text}
        </pre>
      )}
    </details>
  );
}

const MESSAGES_SHOWN = 40;

/** The newest messages; earlier ones when they are asked for. */
function Messages({ messages }: { messages: readonly Told[] }) {
  const shown = useSignal(MESSAGES_SHOWN);
  const first = Math.max(0, messages.length - shown.value);
  return (
    <>
      {first > 0 && (
        <button type="button" class="bare" onClick={() => (shown.value += MESSAGES_SHOWN)}>
          {plural(first, "earlier message")}
        </button>
      )}
      {messages.slice(first).map((message, index) => (
        <MessageOf key={first + index} message={message} />
      ))}
    </>
  );
}

function MessageOf({ message }: { message: Told }) {
  return (
    <details class="told" open={message.isNew}>
      <summary>
        <span class="quiet">{message.label}</span>
        <span class="name">{message.role}</span>
        <span class="args">{message.text.slice(0, 120)}</span>
        {message.isNew && <span class="add">new</span>}
      </summary>
      <pre class="text" tabIndex={0} role="region" aria-label={`Message ${message.label}`}>
        {message.text}
      </pre>
    </details>
  );
}

/** Why each memory and each skill is in the context. */
function Reasons({ run, context, before }: { run: string; context: Context; before: Context | null }) {
  const skills = useResource<RunSkills>(`/api/runs/${run}/skills`).value.value;
  const known = new Set(before?.memory?.map((item) => item.id));
  const memory = context.memory ?? [];
  const active = skills?.active ?? [];
  const rules = rulesOf(context);
  if (memory.length + active.length + rules.length === 0) return null;
  return (
    <Section label="Why it is there">
      <ul class="lines">
        {memory.map((item) => (
          <li key={`${item.kind} ${item.id}`}>
            {item.kind === "memory" || item.kind === "standing" ? (
              <a href={`${BASE}/memory/${item.id}`}>{item.kind}</a>
            ) : item.kind === "message" && item.thread_id ? (
              <a href={`${BASE}/t/${item.thread_id}`}>message</a>
            ) : (
              <b>{item.kind}</b>
            )}
            <span class="grow quiet">
              {item.score == null
                ? "it is always in the prompt"
                : `found with score ${item.score.toFixed(2)}${scores(item.parts)}`}
              {(item.count ?? 1) > 1 ? `, stands for ${item.count} equal texts` : ""}
            </span>
            {before && !known.has(item.id) && <span class="add">new</span>}
            <span class="end">{item.at && <Ago at={item.at} />}</span>
          </li>
        ))}
        {active.map((skill) => (
          <li key={skill.id}>
            <a href={`${BASE}/skills/${encodeURIComponent(skill.name)}?source=${skill.source}`}>skill {skill.name}</a>
            <span class="grow quiet">{[skill.cause, ...(skill.reasons ?? [])].join(", ")}</span>
          </li>
        ))}
        {rules.map((rule) => (
          <li key={`${rule.kind} ${rule.name}`}>
            <b>{rule.kind}</b>
            <span class="grow quiet">
              {rule.name}: {rule.reason}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

interface Reason {
  kind: string;
  name: string;
  reason: string;
}

/** Reasons that the parts of the system prompt name themselves, besides those of memories and skills. */
function rulesOf(context: Context): Reason[] {
  const all = context.segments.flatMap((segment) => (segment as { reasons?: Reason[] }).reasons ?? []);
  return all.filter((reason) => reason.kind === "rule");
}

function scores(parts: object | null | undefined): string {
  if (!parts) return "";
  const given = Object.entries(parts).filter(([, value]) => typeof value === "number" && value > 0);
  return given.length === 0
    ? ""
    : ` (${given.map(([name, value]) => `${name} ${Number(value).toFixed(2)}`).join(", ")})`;
}
