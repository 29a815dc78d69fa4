/** What was found for a text: threads, agents, artifacts, messages and memories, with the words that match. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "../../api/client";
import type { SearchHit } from "../../api/types";
import { everywhere, type Hit } from "../../live/find";
import { Filters, Screen, Scroll, Section, useFilters } from "../../parts/screen";
import { Empty, Failure, Loading } from "../../parts/states";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

const GROUPS: [Hit["kind"], string][] = [
  ["run", "Run"],
  ["thread", "Threads"],
  ["interrupt", "Question"],
  ["agent", "Agents"],
  ["artifact", "Artifacts"],
  ["message", "Messages"],
  ["memory", "Memories"],
];

export function Find() {
  const { query } = useFilters();
  const q = (query.q ?? "").trim();
  const hits = useSignal<Hit[] | null>(null);
  const error = useSignal<ApiError | null>(null);
  const look = (): (() => void) => {
    let stale = false;
    hits.value = null;
    error.value = null;
    if (q)
      everywhere(q)
        .then((found) => {
          if (!stale) hits.value = found;
        })
        .catch((failed: unknown) => {
          if (!stale && failed instanceof ApiError) error.value = failed;
        });
    return () => {
      stale = true;
    };
  };
  useEffect(look, [q]);
  return (
    <Screen title="Find" filters={<Filters search={{ name: "q", label: "Find in everything" }} />}>
      <Scroll>
        {!q && <Empty>{words.findHint}</Empty>}
        {q && error.value && <Failure error={error.value} retry={look} />}
        {q && !hits.value && !error.value && <Loading label="Searching" />}
        {q && hits.value?.length === 0 && <Empty>{words.nothingFound}</Empty>}
        {GROUPS.map(([kind, label]) => (
          <Group key={kind} label={label} hits={hits.value?.filter((hit) => hit.kind === kind) ?? []} />
        ))}
      </Scroll>
    </Screen>
  );
}

function Group({ label, hits }: { label: string; hits: readonly Hit[] }) {
  if (hits.length === 0) return null;
  return (
    <Section label={label} note={hits.length}>
      <ul class="lines">
        {hits.map((hit) => (
          <li key={hit.key}>
            <a href={hit.href}>{hit.excerpt?.text === hit.title ? <Excerpt of={hit.excerpt} /> : hit.title}</a>
            <span class="grow quiet">
              {hit.excerpt && hit.excerpt.text !== hit.title && <Excerpt of={hit.excerpt} />}
            </span>
            <span class="end">
              <Ago at={hit.at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** A text with its matches marked. */
function Excerpt({ of: { text, highlights } }: { of: SearchHit["excerpt"] }) {
  let at = 0;
  const parts = highlights.map(({ start, end }) => {
    const before = text.slice(at, start);
    at = end;
    return (
      <>
        {before}
        <mark>{text.slice(start, end)}</mark>
      </>
    );
  });
  return (
    <>
      {parts}
      {text.slice(at)}
    </>
  );
}
