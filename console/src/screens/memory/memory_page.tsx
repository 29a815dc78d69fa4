/** One memory: where it came from, what it replaced, and what replaced it. */
import { useSignal } from "@preact/signals";
import { post, remove, request } from "../../api/client";
import { BASE } from "../../api/space";
import type { Memory, MemoryVersion, Provenance } from "../../api/types";
import { Act, Form } from "../../parts/act";
import { count } from "../../parts/format";
import { Facts, Screen, Scroll, Section, Shown, useResource } from "../../parts/screen";
import { Ago } from "../../parts/time";
import { UsedBy } from "../../parts/uses";
import { words } from "../../words/en";
import { hrefOf, State } from "./memory";

export function MemoryPage({ id = "" }: { id?: string }) {
  const provenance = useResource<Provenance>(`/api/memories/${id}/provenance`);
  const memory = provenance.value.value?.memory;
  return (
    <Screen
      title={memory?.title ?? "Memory"}
      back={{ href: `${BASE}/memory`, label: "Memory" }}
      actions={memory && <Actions memory={memory} refresh={provenance.refresh} />}
    >
      <Scroll>
        <Shown of={provenance} label="Loading the memory">
          {(found) => <Details of={found} />}
        </Shown>
      </Scroll>
    </Screen>
  );
}

function Actions({ memory, refresh }: { memory: Memory; refresh: () => void }) {
  const editing = useSignal(false);
  const forgotten = useSignal(false);
  if (forgotten.value) return <span class="quiet">forgotten</span>;
  const current = memory.status === "active" || memory.status === "proposed";
  return (
    <>
      {memory.status === "proposed" && (
        <Act look="first" do={() => request("POST", `/api/memories/${memory.id}/accept`)} after={refresh}>
          Accept
        </Act>
      )}
      {current && (
        <button type="button" onClick={() => (editing.value = true)}>
          Edit…
        </button>
      )}
      {current && (
        <Act do={() => request("POST", `/api/memories/${memory.id}/retract`)} after={refresh}>
          Retract
        </Act>
      )}
      <Act
        look="fail"
        sure="Forget this memory, with all its versions and every copy of its text?"
        do={() => remove(`/api/memories/${memory.id}`)}
        after={() => (forgotten.value = true)}
      >
        Forget
      </Act>
      {editing.value && (
        <Form
          title="Replace this memory"
          action="Replace"
          fields={[
            {
              name: "text",
              label: "Statement",
              kind: "text",
              first: memory.text,
              required: true,
              hint: words.editSupersedes,
            },
          ]}
          onSend={async ({ text }, key) => {
            const { type, category, importance, tags, standing } = memory;
            const next = { text, type, category, importance, tags, standing, sources: memory.sources };
            await post(`/api/memories/${memory.id}/supersede`, { memory: next }, key);
            refresh();
          }}
          onClose={() => (editing.value = false)}
        />
      )}
    </>
  );
}

function Details({ of }: { of: Provenance }) {
  const { memory, messages, superseded_by, supersedes } = of;
  return (
    <>
      <Section label="Statement">
        <p class="prose">{memory.text}</p>
        <Facts
          of={[
            ["status", <State memory={memory} />],
            ["kind", memory.type],
            ["category", memory.category],
            ["weight", memory.importance.toFixed(2)],
            ["tags", memory.tags?.join(", ")],
            ["standing", memory.standing && "agents are told it always"],
            ["origin", [memory.origin, memory.agent ?? memory.author].filter(Boolean).join(" of ")],
            ["untrusted", memory.taint?.join(", ")],
            ["about", memory.entities?.map((entity) => entity.label).join(", ")],
            ["kept", <Ago at={memory.created_at} />],
            ["valid", span(memory.valid_from, memory.valid_until)],
            ["happened", span(memory.occurred_from, memory.occurred_until)],
            ["version", count(memory.version)],
          ]}
        />
      </Section>
      <Replaced label="Replaced by" memories={superseded_by ? [superseded_by] : []} />
      <Replaced label="It replaced" memories={supersedes} />
      <Section label="Came from" note={messages.length === 0 ? "no message" : undefined}>
        <ul class="lines">
          {messages.map((message) => (
            <li key={message.id}>
              <a href={`${BASE}/t/${message.thread_id}/${message.run_id}?at=${message.sequence}`}>
                {message.speaker ?? message.role}, message {message.sequence}
              </a>
              <span class="grow">{quoted(message.text, message.start ?? null, message.end ?? null)}</span>
              <span class="end">
                {message.kind === "contradicts" ? "speaks against it, " : ""}
                <Ago at={message.at} />
              </span>
            </li>
          ))}
        </ul>
      </Section>
      <UsedBy by={{ memory_id: memory.id }} />
      <History id={memory.id} />
    </>
  );
}

function Replaced({ label, memories }: { label: string; memories: readonly Memory[] }) {
  if (memories.length === 0) return null;
  return (
    <Section label={label}>
      <ul class="lines">
        {memories.map((memory) => (
          <li key={memory.id}>
            <a class="grow" href={hrefOf(memory)}>
              {memory.text}
            </a>
            <span class="end">
              <Ago at={memory.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function History({ id }: { id: string }) {
  const history = useResource<{ items: MemoryVersion[] }>(`/api/memories/${id}/history`);
  const versions = history.value.value?.items ?? [];
  if (versions.length < 2) return null;
  return (
    <Section label="Versions">
      <ul class="lines">
        {versions.toReversed().map((version) => (
          <li key={version.version}>
            <b>{version.version}</b>
            <span class="grow">{version.memory.text}</span>
            <span class="quiet">{version.memory.status}</span>
            <span class="end">
              {version.changed_by ? `${version.changed_by}, ` : ""}
              <Ago at={version.changed_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** The quoted range of a message, marked; of a message without one its beginning. */
function quoted(text: string, start: number | null, end: number | null) {
  if (start === null || end === null) return text.length > 300 ? `${text.slice(0, 299)}…` : text;
  const from = Math.max(0, start - 80);
  return (
    <>
      {from > 0 && "…"}
      {text.slice(from, start)}
      <mark>{text.slice(start, end)}</mark>
      {text.slice(end, end + 80)}
      {end + 80 < text.length && "…"}
    </>
  );
}

function span(from: string | null | undefined, until: string | null | undefined): string | null {
  if (!from && !until) return null;
  return [from ? `from ${from.slice(0, 10)}` : "", until ? `until ${until.slice(0, 10)}` : ""]
    .filter(Boolean)
    .join(" ");
}
