/** Sub-agents that a message started: each with its own ruler, and a link to its thread. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, url } from "../../../api/client";
import { BASE } from "../../../api/space";
import { ENDED, type Page, type Run, type Step } from "../../../api/types";
import { spansOf } from "../../../log/ruler";
import type { Call } from "../../../log/run_log";
import { duration } from "../../../parts/format";
import { Dot, markOf } from "../../../parts/status";
import { parsed } from "./tools";

export function Children({ calls }: { calls: Call[] }) {
  return (
    <div class="card children">
      {calls.map((call) => (
        <Child key={call.id} call={call} />
      ))}
    </div>
  );
}

function Child({ call }: { call: Call }) {
  const run = useSignal<Run | null>(null);
  const steps = useSignal<Step[]>([]);
  const runId = call.child?.runId;
  const settled = call.result !== null;
  useEffect(() => {
    if (!runId) return;
    void Promise.all([get<Run>(`/api/runs/${runId}`), get<Page<Step>>(url(`/api/runs/${runId}/steps`, { limit: 200 }))])
      .then(([found, page]) => {
        run.value = found;
        steps.value = page.items;
      })
      .catch(() => {});
  }, [runId, settled, run, steps]);
  const args = parsed(call.args);
  const name = String(args.agent ?? call.child?.name ?? call.name);
  const task = String(args.input ?? args.message ?? "");
  const child = run.value;
  const spans = spansOf(steps.value, [], Date.now());
  const time = child?.started_at
    ? duration(Date.parse(child.completed_at ?? new Date().toISOString()) - Date.parse(child.started_at))
    : "";
  const end = child && ENDED.has(child.status) ? (call.result ?? "") : (child?.status ?? call.state);
  const inside = (
    <>
      <Dot mark={child ? markOf(child) : settled ? "done" : "live"} />
      <span class="child">
        {name}
        {task && ` · ${task}`}
      </span>
      <span class="bars" aria-hidden="true">
        {spans.map((span) => (
          <i
            key={`${span.kind}${span.number}`}
            class={span.kind === "model" ? "m" : span.kind === "lost" ? "x" : ""}
            style={{ "--long": span.long }}
          />
        ))}
      </span>
      <span class="quiet">{[time, end.length > 40 ? `${end.slice(0, 39)}…` : end].filter(Boolean).join(" · ")}</span>
    </>
  );
  return child ? <a href={`${BASE}/t/${child.thread_id}`}>{inside}</a> : <div>{inside}</div>;
}
