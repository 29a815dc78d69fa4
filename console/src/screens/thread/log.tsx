/**
 * The conversation as a list of which only the rows in sight exist. Reading wins: the page follows the stream only
 * while its end is in sight, and never jumps when older pages load.
 */
import { type ReadonlySignal, type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import type { Interrupt } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import type { AgentRow, Row } from "../../log/rows";
import { Icon } from "../../parts/icon";
import { useKeys } from "../../parts/keys";
import { Question } from "../../parts/question";
import type { ForkPoint } from "./composer";
import { LogRow } from "./rows";

interface Props {
  view: ThreadView;
  rows: ReadonlySignal<Row[]>;
  open: ReadonlySignal<Interrupt[]>;
  me: string | null;
  /** The row that something beside the conversation leads to. */
  wanted: Signal<number | null>;
  onFork: (row: AgentRow) => void;
  onEdit: (point: ForkPoint) => void;
}

const NEAR_PX = 48;

export function Log({ view, rows, open, me, wanted, onFork, onEdit }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const following = useSignal(true);
  const unseen = useSignal(0);
  const seen = useRef(rows.value.length);
  const prepended = useRef(view.prepended.value);
  const shift = prepended.current !== view.prepended.value;
  useLayoutEffect(() => {
    prepended.current = view.prepended.value;
  });
  const toEnd = (): void => {
    following.value = true;
    unseen.value = 0;
    seen.current = rows.value.length;
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  useFollowing(scroller, following);
  useEffect(() => {
    if (!following.value && !shift) unseen.value = Math.max(0, rows.value.length - seen.current);
    else seen.current = rows.value.length;
  }, [rows.value.length]);
  const top = useRef(0);
  const onScroll = (): void => {
    const box = scroller.current;
    if (!box) return;
    // Content that grows, or a question that takes room, moves the end away: only a reader who goes up leaves it.
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    following.value = isAtEnd || (following.value && box.scrollTop >= top.current);
    top.current = box.scrollTop;
    if (following.value) {
      unseen.value = 0;
      seen.current = rows.value.length;
    }
    if (box.scrollTop < 800) void view.readOlder();
  };
  useEffect(onScroll, [view.loaded.value]);
  const goTo = (found: number): void => {
    if (found < 0) return;
    following.value = false;
    list.current?.scrollToIndex(found, { align: "start" });
  };
  useLogKeys(rows, list, scroller, goTo, toEnd);
  useAt(view, rows, goTo);
  useEffect(() => {
    if (wanted.value === null) return;
    goTo(Math.min(wanted.value, rows.value.length + open.value.length - 1));
    wanted.value = null;
  }, [wanted.value]);
  return (
    <div class="log-box">
      <div class="log" ref={scroller} onScroll={onScroll} tabIndex={0} role="region" aria-label="Conversation">
        <Virtualizer ref={list} scrollRef={scroller} as="ol" item="li" shift={shift} bufferSize={600}>
          {rows.value.map((row) => (
            <LogRow key={row.key} row={row} view={view} me={me} onFork={onFork} onEdit={onEdit} />
          ))}
          {open.value.map((question, index) => (
            <div key={question.id} class="entry asked">
              <span class="n" />
              <Question
                question={question}
                agent={view.runs.value.find((run) => run.id === question.run_id)?.agent_type ?? "the agent"}
                keyed={index === 0}
                {...(open.value.length > 1 && { place: `${index + 1} of ${open.value.length}` })}
              />
            </div>
          ))}
        </Virtualizer>
      </div>
      {!following.value && (
        <button type="button" class="pill" onClick={toEnd}>
          <Icon name="down" />
          {unseen.value > 0 ? `${unseen.value} new` : "Newest"}
        </button>
      )}
      {view.behind.value > 0 && (
        <p class="behind quiet" role="status">
          catching up, {view.behind.value.toLocaleString("en")} events
        </p>
      )}
      <Announcer rows={rows} open={open} />
    </div>
  );
}

/** Keep the end in sight while the reader is there: when rows come, and when one of them grows. */
function useFollowing(scroller: { current: HTMLDivElement | null }, following: { value: boolean }): void {
  useEffect(() => {
    const box = scroller.current;
    const content = box?.firstElementChild;
    if (!box || !content) return;
    const stick = (): void => {
      if (following.value) box.scrollTop = box.scrollHeight;
    };
    const resized = new ResizeObserver(stick);
    resized.observe(content);
    resized.observe(box);
    stick();
    return () => resized.disconnect();
  }, [scroller, following]);
}

/** `?at=SEQ` of the address: the message that somebody linked to. Older pages are read until it is there. */
function useAt(view: ThreadView, rows: ReadonlySignal<Row[]>, goTo: (index: number) => void): void {
  const done = useRef(false);
  useEffect(() => {
    const at = new URLSearchParams(location.search).get("at");
    if (done.current || at === null || rows.value.length === 0) return;
    const sequence = Number(at);
    const before = (row: Row): boolean => "sequence" in row && row.sequence !== null && row.sequence <= sequence;
    const found = rows.value.findLastIndex(before);
    if (found < 0 && view.olderCursor.value !== null) {
      void view.readOlder();
      return;
    }
    done.current = true;
    goTo(found);
  });
}

function useLogKeys(
  rows: ReadonlySignal<Row[]>,
  list: { current: VirtualizerHandle | null },
  scroller: { current: HTMLDivElement | null },
  goTo: (index: number) => void,
  toEnd: () => void,
): void {
  const here = (): number => list.current?.findItemIndex((scroller.current?.scrollTop ?? 0) + 8) ?? 0;
  const isFork = (row: Row): boolean => row.kind === "agent" && row.forks > 0;
  const isBad = (row: Row): boolean =>
    row.kind === "failed" ||
    (row.kind === "agent" && row.calls.some((call) => call.state === "failed" || call.state === "unknown"));
  const next = (match: (row: Row) => boolean): void =>
    goTo(rows.value.findIndex((row, at) => at > here() && match(row)));
  useKeys({
    j: () => goTo(Math.min(rows.value.length - 1, here() + 1)),
    k: () => goTo(Math.max(0, here() - 1)),
    End: toEnd,
    "]": () => next(isFork),
    "[": () => goTo(rows.value.findLastIndex((row, at) => at < here() && isFork(row))),
    ".": () => next(isBad),
  });
}

/** Whole messages and questions are announced, tokens never. */
function Announcer({ rows, open }: { rows: ReadonlySignal<Row[]>; open: ReadonlySignal<Interrupt[]> }) {
  const last = rows.value.findLast((row) => row.kind === "agent" && row.live === null && row.text !== "");
  const question = open.value[0];
  const text = question
    ? "A question waits for your answer."
    : last?.kind === "agent"
      ? `${last.agent}: ${last.text.slice(0, 300)}`
      : "";
  return (
    <div class="sr" aria-live="polite">
      {text}
    </div>
  );
}
