/** The firings of a schedule, each with its reason: also those that were skipped, missed or failed. */
import { BASE } from "../../api/space";
import type { Firing } from "../../api/types";
import { clock, exact } from "../../parts/format";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

const MARKS = { fired: "done", skipped: "", missed: "waiting", failed: "failed" } as const;

export function Firings({ of }: { of: readonly Firing[] }) {
  if (of.length === 0) return <p class="quiet">{words.noFirings}</p>;
  return (
    <ul class="lines">
      {of.map((firing) => (
        <FiringLine key={firing.id} firing={firing} />
      ))}
    </ul>
  );
}

function FiringLine({ firing }: { firing: Firing }) {
  const tone = firing.outcome === "failed" ? "fail" : firing.outcome === "missed" ? "wait" : "";
  return (
    <li>
      <span class="state">
        <Dot mark={MARKS[firing.outcome]} />
        <span class={tone}>{firing.outcome}</span>
      </span>
      <span class="grow">{firing.reason ?? WHY[firing.cause]}</span>
      {firing.run_id && <a href={`${BASE}/r/${firing.run_id}`}>run {firing.run_status ?? ""}</a>}
      <span class="end" title={exact(firing.due_at)}>
        due {clock(firing.due_at)}, <Ago at={firing.due_at} />
      </span>
    </li>
  );
}

const WHY: Record<Firing["cause"], string> = {
  due: "it was due",
  manual: "somebody asked for it",
  hook: "its hook was called",
  check: "its condition was checked",
  condition: "its condition held",
  context: "its context came up",
};
