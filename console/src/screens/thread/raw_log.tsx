/** The events of the newest run as they are stored. Only the lines in sight exist. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Virtualizer } from "virtua";
import { get, url } from "../../api/client";
import type { Page } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import { throttled } from "../../live/throttle";
import { shownEvent } from "../../live/totals";
import { clock, count } from "../../parts/format";

interface RawEvent {
  seq: number;
  data: { type: string; name?: string; timestamp: number };
}

const PAGE = 200;
const NEAR_END_PX = 600;

export function RawLog({ view }: { view: ThreadView }) {
  const run = view.current?.id ?? "";
  return <Events key={run} run={run} />;
}

function Events({ run }: { run: string }) {
  const events = useSignal<RawEvent[]>([]);
  const box = useRef<HTMLDivElement>(null);
  const newest = shownEvent.value ?? 0;
  const read = useMemo(
    () =>
      throttled(async () => {
        const cursor = events.value.at(-1)?.seq;
        const page = await get<Page<RawEvent>>(url(`/api/runs/${run}/events`, { limit: PAGE, cursor }));
        events.value = [...events.value, ...page.items];
      }, 250),
    [run],
  );
  const readNear = (): void => {
    const at = box.current;
    const isNear = !at || at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
    if (run && isNear && (events.value.at(-1)?.seq ?? 0) < newest) read();
  };
  useEffect(readNear, [read, newest]);
  return (
    <section class="waterfall" aria-labelledby="h-log">
      <h2 class="label" id="h-log">
        Log<span>{count(newest)} events</span>
      </h2>
      <div class="lanes raw" ref={box} onScroll={readNear} tabIndex={0} role="region" aria-label="Events">
        <Virtualizer scrollRef={box} as="ol" item="li">
          {events.value.map((event) => (
            <Event key={event.seq} event={event} />
          ))}
        </Virtualizer>
      </div>
    </section>
  );
}

function Event({ event }: { event: RawEvent }) {
  return (
    <details>
      <summary>
        <span class="quiet">{event.seq}</span> {event.data.name ?? event.data.type.toLowerCase()}
        <span class="quiet">{clock(event.data.timestamp, true)}</span>
      </summary>
      <pre tabIndex={0}>{JSON.stringify(event.data, null, 2)}</pre>
    </details>
  );
}
