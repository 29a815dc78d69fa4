/** The list of threads, a filter, and the first words to an agent. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Virtualizer } from "virtua";
import { BASE } from "../../api/space";
import type { ListedThread } from "../../api/types";
import { recent, ThreadList } from "../../live/threads";
import { firstAgent } from "../../parts/answerer";
import { money } from "../../parts/format";
import { useKeys } from "../../parts/keys";
import { useTitle } from "../../parts/screen";
import { Empty, Failure, Loading } from "../../parts/states";
import { Dot, markOf, statusWord } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";
import { NewThread } from "./new_thread";
import { lastOf } from "./rows";
import "./threads.css";

export function Threads() {
  useTitle("Threads");
  const { query, route } = useLocation();
  const title = query.q ?? "";
  const status = query.status === "archived" ? "archived" : "";
  const list = useMemo(
    () => (title || status ? new ThreadList({ ...(title && { title }), ...(status && { status }) }) : recent),
    [title, status],
  );
  useEffect(() => list.refresh(), [list]);
  const field = useRef<HTMLInputElement>(null);
  useKeys({ "/": () => field.current?.focus() });
  const filter = (next: { q?: string; status?: string }): void => {
    const search = new URLSearchParams(Object.entries({ q: title, status, ...next }).filter(([, value]) => value));
    route(`${BASE}/threads${search.size ? `?${search}` : ""}`, true);
  };
  return (
    <main id="main" tabIndex={-1} class="screen threads">
      <header>
        <h1>Threads</h1>
        <div class="do">
          <input
            ref={field}
            type="search"
            placeholder="Filter by title"
            aria-label="Filter by title"
            value={title}
            onInput={(event) => filter({ q: event.currentTarget.value })}
          />
          <select
            aria-label="Which threads"
            value={status}
            onChange={(event) => filter({ status: event.currentTarget.value })}
          >
            <option value="">active</option>
            <option value="archived">archived</option>
          </select>
        </div>
      </header>
      <NewThread />
      <Rows list={list} none={title ? words.noMatch : status ? words.noArchived : null} />
    </main>
  );
}

/** `none` says that no thread fits the filters. */
function Rows({ list, none }: { list: ThreadList; none: string | null }) {
  const { route } = useLocation();
  const chosen = useSignal(-1);
  const scroller = useRef<HTMLDivElement>(null);
  const items = list.items.value?.filter((thread) => thread.status !== "archived" || list !== recent);
  const choose = (step: number): void => {
    chosen.value = Math.max(0, Math.min((items?.length ?? 1) - 1, chosen.value + step));
    scroller.current?.querySelectorAll("a")[chosen.value]?.focus();
  };
  useKeys({
    j: () => choose(1),
    k: () => choose(-1),
    Enter: () => {
      const thread = items?.[chosen.value];
      if (thread) route(`${BASE}/t/${thread.id}`);
    },
  });
  if (list.error.value && !items) return <Failure error={list.error.value} retry={list.refresh} />;
  if (!items) return <Loading rows={8} label={words.loadingThreads} />;
  if (items.length === 0)
    return none !== null ? (
      <Empty>{none}</Empty>
    ) : (
      <Empty command={words.startCommand(firstAgent())}>{words.noThreads}</Empty>
    );
  const onScroll = (): void => {
    const box = scroller.current;
    if (box && box.scrollHeight - box.scrollTop - box.clientHeight < 600) void list.readMore();
  };
  return (
    <div class="rows" ref={scroller} onScroll={onScroll}>
      <Virtualizer scrollRef={scroller} as="ul" item="li">
        {items.map((thread) => (
          <ThreadRow key={thread.id} thread={thread} />
        ))}
      </Virtualizer>
    </div>
  );
}

function ThreadRow({ thread }: { thread: ListedThread }) {
  const run = thread.latest_run;
  const mark = markOf(run);
  const tone = mark === "waiting" ? "wait" : mark === "live" ? "live" : mark === "failed" ? "fail" : "quiet";
  return (
    <a class="thread" href={`${BASE}/t/${thread.id}`}>
      <Dot mark={mark} />
      <span class="title">{thread.title ?? thread.id}</span>
      <span class="agent">{run?.agent_type ?? thread.agent_type}</span>
      <span class={`word ${tone}`}>{statusWord(run)}</span>
      <span class="cost">{run ? money(thread.usage.cost_usd) : ""}</span>
      <span class="when">
        <Ago at={lastOf(thread)} />
      </span>
    </a>
  );
}
