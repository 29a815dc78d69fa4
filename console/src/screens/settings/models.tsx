/** Providers with and without a key, and the models with their windows and prices. */
import type { ModelCatalog } from "../../api/types";
import { count } from "../../parts/format";
import { Rows } from "../../parts/rows";
import { Filters, Screen, Shown, useFilters, useResource } from "../../parts/screen";
import { SettingsTabs } from "../../parts/settings_tabs";
import { Dot } from "../../parts/status";
import { words } from "../../words/en";

export function Models() {
  const catalog = useResource<ModelCatalog>("/models");
  const { query } = useFilters();
  const providers = catalog.value.value?.providers ?? [];
  const ready = new Set(providers.filter((each) => each.has_key).map((each) => each.name));
  const chosen = query.provider ?? "";
  const q = (query.q ?? "").toLowerCase();
  const names = providers.map(
    (each) => [each.name, each.has_key ? each.name : `${each.name}: needs ${each.key_variable ?? "a key"}`] as const,
  );
  const filters = (
    <Filters
      search={{ name: "q", label: "Filter models" }}
      choices={[
        {
          name: "provider",
          label: "Provider",
          of: [["", ready.size > 0 ? "providers with a key" : "all providers"], ...names],
        },
      ]}
    />
  );
  return (
    <Screen title="Models" filters={filters}>
      <SettingsTabs at="models" />
      <Shown of={catalog} label="Loading the models">
        {({ models }) => (
          <>
            {ready.size === 0 && <p class="note-line quiet">{words.noProviderKey}</p>}
            <Rows
              label="Models"
              items={models.filter(
                (model) =>
                  model.id.toLowerCase().includes(q) &&
                  (chosen ? model.provider === chosen : ready.has(model.provider) || ready.size === 0),
              )}
              keyOf={(model) => model.id}
              mark={(model) => <Dot mark={ready.has(model.provider) ? "done" : ""} />}
              columns={[
                { label: "model", width: "minmax(0, 1fr)", show: (model) => model.id },
                { label: "provider", width: "8rem", as: "quiet", show: (model) => model.provider },
                {
                  label: "window",
                  width: "6rem",
                  as: "figure",
                  show: (model) => (model.context_window ? count(model.context_window) : ""),
                },
                { label: "$ in / M", width: "5rem", as: "figure", show: (model) => price(model.input_usd_per_million) },
                {
                  label: "$ out / M",
                  width: "5rem",
                  as: "figure",
                  show: (model) => price(model.output_usd_per_million),
                },
              ]}
            />
          </>
        )}
      </Shown>
    </Screen>
  );
}

const price = (usd: number | null | undefined): string => (usd == null ? "unpriced" : usd.toFixed(2));
