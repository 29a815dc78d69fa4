/** Two branches of a thread from their last common message on, side by side, with what each cost and did. */
import { url } from "../../api/client";
import { BASE } from "../../api/space";
import type { Comparison, Message } from "../../api/types";
import { textOf } from "../../log/run_log";
import { count, duration, money, plural } from "../../parts/format";
import { Markdown } from "../../parts/markdown";
import { runInput } from "../../parts/run_input";
import { Facts, Screen, Shown, useResource } from "../../parts/screen";
import { Status } from "../../parts/status";
import { words } from "../../words/en";
import "./compare.css";

type Side = Comparison["a"];
const LIMIT = 100;

export function Compare({ thread = "", a = "", b = "" }: { thread?: string; a?: string; b?: string }) {
  const found = useResource<Comparison>(url(`/api/threads/${thread}/compare`, { a, b, limit: LIMIT }), true);
  const common = found.value.value?.common;
  const note = found.value.value && (common ? `from message ${common.sequence} on` : "they have no message in common");
  return (
    <Screen title="Compare two branches" note={note} back={{ href: `${BASE}/t/${thread}/${a}`, label: "Thread" }}>
      <Shown of={found} label="Loading both branches">
        {(both) => (
          <div class="compare" tabIndex={0} role="region" aria-label="Both branches">
            {common?.message && (
              <article class="common">
                <h2 class="label">In common, message {common.sequence}</h2>
                <Text message={common.message} />
              </article>
            )}
            <BranchOf side={both.a} thread={thread} label="First" />
            <BranchOf side={both.b} thread={thread} label="Second" />
          </div>
        )}
      </Shown>
    </Screen>
  );
}

function BranchOf({ side, thread, label }: { side: Side; thread: string; label: string }) {
  const { run, messages } = side;
  const tools = Object.entries(side.tool_calls as Record<string, number>);
  const tokens = (side.tree_usage.input_tokens ?? 0) + (side.tree_usage.output_tokens ?? 0);
  return (
    <section class="branch" aria-label={`${label} branch`}>
      <header>
        <h2>
          <a href={`${BASE}/t/${thread}/${run.id}`}>{runInput(run.input) || label}</a>
        </h2>
        <Status run={run} />
      </header>
      <Facts
        of={[
          ["cost", `${money(side.tree_usage.cost_usd)}, ${count(tokens)} tokens`],
          ["time", !side.duration_seconds ? null : duration(side.duration_seconds * 1000)],
          ["model calls", `${count(side.model_calls)} in ${plural(side.runs, "run")}`],
          ["tools", tools.map(([name, calls]) => `${name} ×${calls}`).join(", ")],
          ["failed", side.failed_steps > 0 && <span class="fail">{plural(side.failed_steps, "step")}</span>],
          ["unknown", side.unknown_steps > 0 && <span class="fail">{plural(side.unknown_steps, "step")}</span>],
        ]}
      />
      {messages.length === 0 && <p class="quiet">{words.noneAfter}</p>}
      <ol>
        {messages.map((message) => (
          <li key={message.id} class={message.role}>
            <p class="who">
              <span class="quiet">{message.sequence}</span>{" "}
              {message.role === "assistant" ? run.agent_type : message.role}
            </p>
            <Text message={message} />
          </li>
        ))}
      </ol>
      {side.more && (
        <p>
          <a class="link" href={`${BASE}/t/${thread}/${run.id}`}>
            Read on in the thread
          </a>
        </p>
      )}
    </section>
  );
}

function Text({ message }: { message: Message }) {
  const text = textOf(message.content);
  if (message.role === "tool") return <pre class="text">{text.length > 2000 ? `${text.slice(0, 1999)}…` : text}</pre>;
  return (
    <>
      <div class="text">
        <Markdown text={text} />
      </div>
      {message.tool_calls.map((call) => (
        <p key={call.id} class="mono call">
          {call.name} {JSON.stringify(call.arguments)}
        </p>
      ))}
    </>
  );
}
