/** The waterfall: every step of the run and of the runs below it, over one time axis. Only the lanes in sight exist. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Virtualizer } from "virtua";
import { BASE } from "../../api/space";
import { hints } from "../../live/resource";
import { StepPages } from "../../live/steps";
import type { ThreadView } from "../../live/thread";
import { type Lane, lanesOf } from "../../log/waterfall";
import { duration, money, plural } from "../../parts/format";
import { Empty, Failure, Loading } from "../../parts/states";
import { now } from "../../parts/time";
import { words } from "../../words/en";

export function Steps({ view }: { view: ThreadView }) {
  const run = view.current?.id ?? "";
  const steps = useMemo(() => new StepPages(run, true), [run]);
  useEffect(() => () => steps.close(), [steps]);
  const moved = hints.value + view.version.value;
  useEffect(() => {
    if (run) steps.refresh();
  }, [steps, run, moved]);
  const items = steps.items.value;
  const time = now.value;
  const found = useMemo(() => lanesOf(items ?? [], run, Math.max(time, Date.now())), [items, run, time]);
  const box = useRef<HTMLDivElement>(null);
  if (!items) {
    if (steps.error.value) return <Failure error={steps.error.value} retry={steps.refresh} />;
    return <Loading rows={6} label="Loading the steps" />;
  }
  if (found.length === 0) return <Empty>{words.noSteps}</Empty>;
  const [first, last] = [Math.min(...extent(found, "from")), Math.max(...extent(found, "to"))];
  return (
    <section class="waterfall" aria-labelledby="h-steps">
      <h2 class="label" id="h-steps">
        Steps
        <span>
          {plural(found.length, "step")}, {duration(last - first)}
        </span>
      </h2>
      <div class="lanes" ref={box} tabIndex={0} role="region" aria-label="Waterfall">
        <Virtualizer scrollRef={box} as="ol" item="li">
          {found.map((lane) => (
            <LaneRow key={lane.key} lane={lane} />
          ))}
        </Virtualizer>
      </div>
    </section>
  );
}

/** At most so many numbers are given to a function as arguments. */
const CHUNK = 5000;

function extent(lanes: readonly Lane[], side: "from" | "to"): number[] {
  const pick = side === "from" ? Math.min : Math.max;
  return Array.from({ length: Math.ceil(lanes.length / CHUNK) }, (_, at) =>
    pick(...lanes.slice(at * CHUNK, (at + 1) * CHUNK).map((lane) => lane[side])),
  );
}

const KINDS = { model: "m", child: "c", wait: "w", tool: "" } as const;

function LaneRow({ lane }: { lane: Lane }) {
  const { step } = lane;
  const bad = step.state === "failed" || step.state === "unknown";
  const name = step.kind === "model" ? "model" : step.name;
  return (
    <details class="lane-row">
      <summary class={KINDS[lane.kind]} style={{ "--depth": Math.min(lane.depth, 6) }}>
        <span class={bad ? "fail" : undefined}>
          {name}
          {(step.attempts?.length ?? 0) > 1 && <b class="fail"> ×{step.attempts?.length}</b>}
        </span>
        <span class="lane">
          <i style={{ "--at": `${lane.at * 100}%`, "--for": `${lane.long * 100}%` }} />
        </span>
        <span>{duration(lane.to - lane.from)}</span>
      </summary>
      <Opened lane={lane} />
    </details>
  );
}

function Opened({ lane }: { lane: Lane }) {
  const { step } = lane;
  const wait = step.first_token_at ? Date.parse(step.first_token_at) - lane.from : null;
  const { usage } = step;
  const facts = [
    `step ${step.number}, ${step.state}`,
    wait === null ? "" : `first token after ${duration(wait)}`,
    usage ? `${usage.input_tokens ?? 0} in, ${usage.output_tokens ?? 0} out, ${money(usage.cost_usd)}` : "",
    step.worker ? `worker ${step.worker}` : "",
    step.waits_for ? `waits for a ${step.waits_for}` : "",
  ];
  return (
    <div class="opened-lane">
      <p>{facts.filter(Boolean).join(" · ")}</p>
      {(step.attempts?.length ?? 0) > 1 && (
        <p>
          {step.attempts?.map((each) => `attempt ${each.attempt} by ${each.worker ?? "an unknown worker"}`).join(", ")}
        </p>
      )}
      <p>
        {step.kind === "model" && <a href={`${BASE}/r/${step.run_id}/context/${step.number}`}>What it was told</a>}
        {step.child_run_id && <a href={`${BASE}/r/${step.child_run_id}`}>Open its run</a>}
      </p>
    </div>
  );
}
