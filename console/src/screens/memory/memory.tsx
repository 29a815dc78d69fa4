/** What agents keep: a list, and a search by meaning. */
import { useSignal } from "@preact/signals";
import { post, url } from "../../api/client";
import { BASE } from "../../api/space";
import type { Memory, SearchHit } from "../../api/types";
import { Form } from "../../parts/act";
import { type Column, Listed, Rows } from "../../parts/rows";
import { Filters, Screen, Shown, useFilters, useList, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

export { MemoryPage } from "./memory_page";

const TYPES = [
  ["", "any kind"],
  ["semantic", "semantic"],
  ["episode", "episode"],
  ["procedural", "procedural"],
] as const;
const STATUSES = [
  ["", "any status"],
  ["active", "active"],
  ["proposed", "proposed"],
  ["superseded", "superseded"],
  ["retracted", "retracted"],
] as const;

const COLUMNS: Column<Memory>[] = [
  { label: "statement", width: "minmax(0, 1fr)", show: (memory) => memory.title ?? memory.text },
  { label: "kind", width: "5.5rem", as: "quiet", show: (memory) => memory.type },
  { label: "origin", width: "5rem", as: "quiet", show: (memory) => memory.origin },
  { label: "status", width: "6rem", as: "quiet", show: (memory) => <State memory={memory} /> },
  { label: "weight", width: "3.5rem", as: "desk", show: (memory) => memory.importance.toFixed(2) },
  { label: "when", width: "6rem", as: "figure", show: (memory) => <Ago at={memory.updated_at} /> },
];
export const hrefOf = (memory: Memory): string => `${BASE}/memory/${memory.id}`;
const markOf = (memory: Memory) => (
  <Dot mark={memory.status === "proposed" ? "waiting" : memory.status === "active" ? "done" : ""} />
);

export function State({ memory }: { memory: Memory }) {
  return <span class={memory.status === "proposed" ? "wait" : undefined}>{memory.status}</span>;
}

export function Memories() {
  const { query } = useFilters();
  const keeping = useSignal(false);
  const list = useList<Memory>("/api/memories", { type: query.type, status: query.status });
  const filters = (
    <Filters
      search={{ name: "q", label: "Search memories" }}
      choices={[
        { name: "type", label: "Kind", of: TYPES },
        { name: "status", label: "Status", of: STATUSES },
      ]}
    />
  );
  const keep = (
    <button type="button" onClick={() => (keeping.value = true)}>
      Keep…
    </button>
  );
  return (
    <Screen title="Memory" filters={filters} actions={keep}>
      {query.q ? (
        <Found q={query.q} type={query.type ?? ""} />
      ) : (
        <Listed
          label="Memories"
          list={list}
          keyOf={(memory) => memory.id}
          columns={COLUMNS}
          href={hrefOf}
          mark={markOf}
          empty={<Empty command={words.noMemoriesCommand}>{words.noMemories}</Empty>}
        />
      )}
      {keeping.value && (
        <Form
          title="Keep a memory"
          action="Keep"
          fields={[
            { name: "text", label: "Statement", kind: "text", required: true },
            { name: "type", label: "Kind", kind: "choice", first: "semantic", of: TYPES.slice(1) },
            { name: "standing", label: "Agents are told it always", kind: "check" },
          ]}
          onSend={async ({ text, type, standing }, key) => {
            await post("/api/memories", { text, type, standing: standing !== "" }, key);
            list.refresh();
          }}
          onClose={() => (keeping.value = false)}
        />
      )}
    </Screen>
  );
}

function Found({ q, type }: { q: string; type: string }) {
  const found = useResource<{ results: SearchHit[]; notice: string | null }>(
    url("/api/memories/search", { q, type, target: "abstract", inactive: "true", limit: 50 }),
  );
  return (
    <Shown of={found} label="Searching">
      {({ results, notice }) => (
        <>
          {notice && <p class="quiet note-line">{notice}</p>}
          {results.length === 0 ? (
            <Empty>{words.noMatchingMemory}</Empty>
          ) : (
            <Rows
              label="Memories that match"
              items={results.flatMap((hit) => (hit.memory ? [hit.memory] : []))}
              keyOf={(memory) => memory.id}
              columns={COLUMNS}
              href={hrefOf}
              mark={markOf}
            />
          )}
        </>
      )}
    </Shown>
  );
}
