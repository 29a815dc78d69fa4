/** Daemons: agents with heartbeats, what each did last, and why one did nothing. */
import { post, request } from "../../api/client";
import { BASE } from "../../api/space";
import type { DaemonDetail, DaemonView } from "../../api/types";
import { Act } from "../../parts/act";
import { exact } from "../../parts/format";
import { Rows } from "../../parts/rows";
import { Screen, Scroll, Section, Shown, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Until } from "../../parts/time";
import { words } from "../../words/en";
import { Firings } from "./firings";
import { KindTabs } from "./schedules";

export function Daemons() {
  const daemons = useResource<{ daemons: DaemonView[] }>("/daemons", true);
  return (
    <Screen title="Daemons">
      <KindTabs at="daemons" />
      <Shown of={daemons} label="Loading the daemons">
        {(found) =>
          found.daemons.length === 0 ? (
            <Empty>{words.noDaemons}</Empty>
          ) : (
            <Rows
              label="Daemons"
              items={found.daemons}
              keyOf={(each) => each.name}
              href={(each) => `${BASE}/daemons/${encodeURIComponent(each.name)}`}
              mark={(each) => <Dot mark={each.state === "running" ? "live" : ""} />}
              columns={[
                { label: "name", width: "12rem", show: (each) => each.name },
                { label: "what it is for", width: "minmax(0, 1fr)", as: "quiet", show: (each) => each.description },
                { label: "state", width: "5rem", as: "quiet", show: (each) => each.state },
                { label: "last", width: "6rem", as: "quiet", show: (each) => lastOf(each) },
                { label: "next", width: "8rem", as: "figure", show: (each) => <Until at={nextOf(each)} /> },
              ]}
            />
          )
        }
      </Shown>
    </Screen>
  );
}

export function DaemonPage({ name = "" }: { name?: string }) {
  const path = `/daemons/${encodeURIComponent(name)}`;
  const daemon = useResource<DaemonDetail>(path, true);
  const found = daemon.value.value;
  const turn = found?.state === "running" ? "stop" : "start";
  const actions = found && (
    <>
      <Act do={() => post(`${path}/trigger`, {})} after={daemon.refresh}>
        Run now
      </Act>
      <Act do={() => request("POST", `${path}/${turn}`)} after={daemon.refresh}>
        {turn === "stop" ? "Stop" : "Start"}
      </Act>
    </>
  );
  return (
    <Screen title={name} back={{ href: `${BASE}/daemons`, label: "Daemons" }} actions={actions}>
      <Scroll>
        <Shown of={daemon} label="Loading the daemon">
          {(each) => (
            <>
              <Section label="Heartbeats" note={each.changed_by ? `${each.state}, by ${each.changed_by}` : each.state}>
                <ul class="lines">
                  {each.heartbeats.map((beat) => (
                    <li key={beat.name}>
                      <b>{beat.name}</b>
                      <span class="mono">{beat.schedule}</span>
                      <span class="grow quiet">{beat.timezone}</span>
                      <span class="end">{beat.next_due_at ? `next ${exact(beat.next_due_at)}` : "not due"}</span>
                    </li>
                  ))}
                </ul>
              </Section>
              <Section label="Latest firings">
                <Firings of={each.firings} />
              </Section>
            </>
          )}
        </Shown>
      </Scroll>
    </Screen>
  );
}

const nextOf = (daemon: DaemonView): string | null =>
  daemon.heartbeats
    .map((beat) => beat.next_due_at)
    .filter((at) => at !== null)
    .toSorted()[0] ?? null;

function lastOf(daemon: DaemonView): string {
  const all = daemon.heartbeats.flatMap((beat) => (beat.last_firing ? [beat.last_firing] : []));
  return all.toSorted((a, b) => (a.due_at < b.due_at ? 1 : -1))[0]?.outcome ?? "";
}
