/** The queue by priority and age, and the workers with what they hold and since when. */
import { useEffect } from "preact/hooks";
import { post } from "../../api/client";
import { BASE } from "../../api/space";
import type { QueueView, WorkerView } from "../../api/types";
import { Act } from "../../parts/act";
import { count, duration, plural } from "../../parts/format";
import { Rows } from "../../parts/rows";
import { Screen, Scroll, Section, Shown, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago, now } from "../../parts/time";
import { words } from "../../words/en";

export function Workers() {
  const workers = useResource<{ items: WorkerView[] }>("/api/workers", true);
  const queue = useResource<QueueView>("/api/queue?limit=200", true);
  const refresh = (): void => {
    workers.refresh();
    queue.refresh();
  };
  const tick = now.value;
  useEffect(refresh, [tick]); // a worker that is gone says nothing: look again
  return (
    <Screen title="Workers">
      <Scroll>
        <Shown of={queue} label="Loading the queue">
          {(found) => <Queue queue={found} refresh={refresh} />}
        </Shown>
        <Shown of={workers} label="Loading the workers">
          {({ items }) => (
            <Section label="Workers" note={standing(items)}>
              {items.length === 0 && <p class="quiet">{words.noWorkers}</p>}
              {items.map((worker) => (
                <Worker key={worker.id} worker={worker} />
              ))}
            </Section>
          )}
        </Shown>
      </Scroll>
    </Screen>
  );
}

function standing(workers: readonly WorkerView[]): string {
  const alive = workers.filter((each) => each.alive).length;
  const gone = workers.length - alive;
  return `${alive} alive${gone ? `, ${gone} gone` : ""}`;
}

function Queue({ queue, refresh }: { queue: QueueView; refresh: () => void }) {
  const { counts, by_priority: by } = queue;
  const oldest = queue.oldest_ready_seconds;
  return (
    <Section label="Queue">
      <div class="totals">
        <p>
          <b>{count(counts.ready)}</b>
          <span>
            {counts.ready > 0 ? `ready: ${by.high ?? 0} high, ${by.normal ?? 0} normal, ${by.low ?? 0} low` : "ready"}
          </span>
        </p>
        <p>
          <b>{count(counts.running)}</b>
          <span>running</span>
        </p>
        <p>
          <b>{count(counts.waiting)}</b>
          <span>waiting</span>
        </p>
        <p>
          <b>{count(counts.delayed + counts.pending)}</b>
          <span>not due yet</span>
        </p>
        {counts.ready > 0 && (
          <p>
            <b>{duration(oldest * 1000)}</b>
            <span>the oldest ready run waits</span>
          </p>
        )}
      </div>
      {queue.items.length === 0 ? (
        <Empty>{words.emptyQueue}</Empty>
      ) : (
        <Rows
          label="Queued runs"
          items={queue.items}
          keyOf={(item) => item.run_id}
          href={(item) => `${BASE}/r/${item.run_id}`}
          columns={[
            { label: "run", width: "minmax(0, 1fr)", show: (item) => item.title ?? item.run_id },
            { label: "agent", width: "8rem", as: "quiet", show: (item) => item.agent_type },
            { label: "pool", width: "6rem", as: "desk", show: (item) => item.pool },
            { label: "priority", width: "5rem", as: "quiet", show: (item) => item.priority },
            { label: "why", width: "8rem", as: "quiet", show: (item) => item.reason ?? item.status },
            { label: "since", width: "6rem", as: "figure", show: (item) => <Ago at={item.queued_at} /> },
          ]}
          actions={(item) => (
            <Act look="bare" do={() => post(`/api/runs/${item.run_id}/cancel`, {})} after={refresh}>
              Cancel
            </Act>
          )}
        />
      )}
    </Section>
  );
}

function Worker({ worker }: { worker: WorkerView }) {
  const pools = worker.pools ?? [];
  const held = worker.runs.length + worker.other_runs;
  const note = worker.lost_leases > 0 ? `, lost ${plural(worker.lost_leases, "lease")}` : "";
  return (
    <div class="worker">
      <p>
        <Dot mark={worker.alive ? "live" : "failed"} /> <b class="mono">{worker.id}</b>{" "}
        <span class="quiet">
          {[worker.host, worker.pid ? `process ${worker.pid}` : "", worker.version].filter(Boolean).join(" · ")}
        </span>
      </p>
      <p class="quiet">
        {!worker.alive && (
          <span class="fail">gone{held > 0 && ": its runs go on elsewhere when their leases end"}. </span>
        )}
        {count(held)} of {count(worker.concurrency)} busy{note}, heard of <Ago at={worker.last_beat_at} />, started{" "}
        <Ago at={worker.started_at} />
        {pools.length > 0 && `, ${pools.length === 1 ? "pool" : "pools"} ${pools.join(", ")}`}
      </p>
      <ul class="lines">
        {worker.runs.map((run) => (
          <li key={run.run_id}>
            <a href={`${BASE}/r/${run.run_id}`}>{run.title ?? run.run_id}</a>
            <span class="grow quiet">{[run.agent_type, run.step].filter(Boolean).join(", ")}</span>
            <span class="end">
              since <Ago at={run.since} />
            </span>
          </li>
        ))}
        {worker.other_runs > 0 && <li class="quiet">{plural(worker.other_runs, "run")} of other spaces</li>}
      </ul>
    </div>
  );
}
