/** What the model calls of the space cost: by day, agent, model, thread and key. Calls without a price are counted, never as 0. */
import { url } from "../../api/client";
import { BASE } from "../../api/space";
import type { UsageReport, UsageTotal } from "../../api/types";
import { type Bar, BarChart, ColumnChart } from "../../parts/bar_chart";
import { count, money, plural } from "../../parts/format";
import { Filters, Screen, Scroll, Section, Shown, useFilters, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { words } from "../../words/en";
import { Budget } from "./budget";

const SPANS = [
  ["", "30 days"],
  ["7", "7 days"],
  ["90", "90 days"],
  ["365", "a year"],
] as const;
const DAY_MS = 86_400_000;
const GROUPS = ["agent", "model", "thread", "key"] as const;
const MAX_BARS = 20;

export function Costs() {
  const { query } = useFilters();
  const days = Number(query.days) || 30;
  const from = new Date(Date.now() - (days - 1) * DAY_MS).toISOString().slice(0, 10);
  const byDay = useResource<UsageReport>(url("/api/usage", { group_by: "day", from }), true);
  return (
    <Screen
      title="Costs"
      note="Sub-agents included"
      filters={<Filters choices={[{ name: "days", label: "Time", of: SPANS }]} />}
    >
      <Scroll>
        <Budget />
        <Shown of={byDay} label="Loading the costs">
          {(report) =>
            report.total.calls === 0 ? (
              <Empty>{words.noCosts}</Empty>
            ) : (
              <>
                <Totals total={report.total} />
                <Section label="By day">
                  <ColumnChart label="Costs by day" bars={barsOf(daysOf(report, days))} />
                </Section>
                {GROUPS.map((group) => (
                  <Group key={group} group={group} from={from} />
                ))}
              </>
            )
          }
        </Shown>
      </Scroll>
    </Screen>
  );
}

function Totals({ total }: { total: UsageTotal }) {
  return (
    <div class="totals">
      <p>
        <b>{money(total.cost_usd)}</b>
        <span>{total.unpriced_calls > 0 ? "of the priced calls" : "all calls priced"}</span>
      </p>
      {total.unpriced_calls > 0 && (
        <p>
          <b>{count(total.unpriced_calls)}</b>
          <span>calls without a known price</span>
        </p>
      )}
      <p>
        <b>{count(total.calls)}</b>
        <span>model calls</span>
      </p>
      <p>
        <b>{count(total.input_tokens)}</b>
        <span>tokens read, {count(total.cached_input_tokens)} of them cached</span>
      </p>
      <p>
        <b>{count(total.output_tokens)}</b>
        <span>tokens written</span>
      </p>
    </div>
  );
}

function Group({ group, from }: { group: (typeof GROUPS)[number]; from: string }) {
  const report = useResource<UsageReport>(url("/api/usage", { group_by: group, from }), true);
  const found = report.value.value;
  if (!found || found.items.length === 0) return null;
  const link = (name: string) =>
    group === "agent"
      ? { href: `${BASE}/agents/${encodeURIComponent(name)}` }
      : group === "thread"
        ? { href: `${BASE}/t/${name}` }
        : {};
  const sorted = found.items.toSorted((a, b) => b.cost_usd - a.cost_usd || tokensOf(b) - tokensOf(a));
  const titles = new Map(sorted.map((total) => [total.name, total.title]));
  const shown = (name: string): string => titles.get(name) ?? (name || "no key");
  const bars = barsOf(sorted.slice(0, MAX_BARS)).map((bar) => ({ ...bar, ...link(bar.name), name: shown(bar.name) }));
  const rest = sorted.length > bars.length ? `, the first ${bars.length}` : "";
  return (
    <Section label={`By ${group}`} note={`${plural(sorted.length, group)}${rest}`}>
      <BarChart label={`Costs by ${group}`} bars={bars} />
    </Section>
  );
}

const tokensOf = (total: UsageTotal): number => total.input_tokens + total.output_tokens;

/** Bars are as long as the money, or as the tokens where nothing has a price. */
function barsOf(totals: readonly UsageTotal[]): Bar[] {
  const isPriced = totals.some((total) => total.cost_usd > 0);
  return totals.map((total) => {
    const { name, calls, unpriced_calls: unpriced, cost_usd: cost } = total;
    const label = calls === 0 ? "" : unpriced === calls ? "unpriced" : money(cost);
    const without = unpriced > 0 && unpriced < calls ? `, ${count(unpriced)} of them unpriced` : "";
    const note = `${plural(calls, "call")}${without} · ${count(tokensOf(total))} tokens`;
    return { name, value: isPriced ? cost : tokensOf(total), label, ...(calls > 0 && { note }) };
  });
}

/** The days, oldest first, also those without a call. */
function daysOf(report: UsageReport, days: number): UsageTotal[] {
  const known = new Map(report.items.map((total) => [total.name, total]));
  const last = Date.parse(report.last_day);
  return Array.from({ length: days }, (_, back) => {
    const name = new Date(last - (days - 1 - back) * DAY_MS).toISOString().slice(0, 10);
    const none = {
      calls: 0,
      unpriced_calls: 0,
      input_tokens: 0,
      output_tokens: 0,
      cached_input_tokens: 0,
      cost_usd: 0,
      title: null,
    };
    return known.get(name) ?? { name, ...none };
  });
}
