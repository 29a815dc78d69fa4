/** The budget of the space: how much of it is spent in its period, and what it is. */
import { useSignal } from "@preact/signals";
import { remove, request } from "../../api/client";
import type { SpaceBudget } from "../../api/types";
import { Act, Form, type Values } from "../../parts/act";
import { count, money } from "../../parts/format";
import { Section, useResource } from "../../parts/screen";
import { words } from "../../words/en";

const PERIODS = [
  ["day", "a day"],
  ["week", "a week"],
  ["month", "a month"],
] as const;

export function Budget() {
  const budget = useResource<SpaceBudget>("/api/budget", true);
  const setting = useSignal(false);
  const gone = budget.error.value?.status === 404;
  const found = gone ? null : budget.value.value;
  if (!found && !gone) return null;
  return (
    <Section label="Budget" note={found ? `${found.since} to ${found.until}` : undefined}>
      {found ? <Spent budget={found} /> : <p class="quiet">{words.noBudget}</p>}
      <p class="acts">
        <button type="button" onClick={() => (setting.value = true)}>
          {found ? "Change…" : "Set a budget…"}
        </button>
        {found && (
          <Act look="fail" sure="Remove this budget?" do={() => remove("/api/budget")} after={budget.refresh}>
            Remove
          </Act>
        )}
      </p>
      {setting.value && (
        <Form
          title="Budget of this space"
          action="Save"
          fields={[
            { name: "period", label: "For", kind: "choice", first: found?.period ?? "month", of: PERIODS },
            { name: "cost_usd", label: "US dollars", kind: "number", first: String(found?.cost_usd ?? "") },
            {
              name: "tokens",
              label: "Tokens",
              kind: "number",
              first: String(found?.tokens ?? ""),
              hint: words.budgetHint,
            },
          ]}
          onSend={async (values) => {
            await request("PUT", "/api/budget", { body: bodyOf(values) });
            budget.refresh();
          }}
          onClose={() => (setting.value = false)}
        />
      )}
    </Section>
  );
}

const bodyOf = ({ period, cost_usd, tokens }: Values) => ({
  period,
  cost_usd: cost_usd ? Number(cost_usd) : null,
  tokens: tokens ? Number(tokens) : null,
});

function Spent({ budget }: { budget: SpaceBudget }) {
  const { spent, percent } = budget;
  const tone = percent >= 100 ? "fail" : percent >= 80 ? "wait" : undefined;
  return (
    <div class="totals">
      <p>
        <b class={tone}>{percent === 0 && (spent.cost_usd ?? 0) > 0 ? "<1" : percent} %</b>
        <span>spent of the {budget.period}</span>
      </p>
      {budget.cost_usd !== null && (
        <p>
          <b>{money(spent.cost_usd)}</b>
          <span>of {money(budget.cost_usd)}</span>
        </p>
      )}
      {budget.tokens !== null && (
        <p>
          <b>{count(spent.tokens ?? 0)}</b>
          <span>of {count(budget.tokens)} tokens</span>
        </p>
      )}
    </div>
  );
}
