/** Who answers: the agent and the model of the next run, each a button of the composer that opens a list. */
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "../api/client";
import type { Agent, AgentPage, ModelCatalog } from "../api/types";
import { type Option, Pick } from "./pick";

export const agents = signal<Agent[] | null>(null);
const preferred = signal("");
const models = signal<Option[] | null>(null);
const LAST = "holdfast.agent";

/** Read the agents, and the one that the settings name for requests that name none. */
export async function readAgents(): Promise<void> {
  const [page, settings] = await Promise.all([
    get<AgentPage>("/api/agents?limit=200"),
    get<{ settings: { default_agent?: string | null } }>("/settings").catch(() => null),
  ]);
  preferred.value = settings?.settings.default_agent ?? "";
  agents.value = page.items;
}

/** The agent to begin with: of the address, the last that was used, that of the settings, or the first there is. */
export function firstAgent(asked = ""): string {
  const names = agents.value?.map((agent) => agent.name) ?? [];
  const wishes = [asked, localStorage.getItem(LAST) ?? "", preferred.value, "default", "assistant"];
  return wishes.find((name) => names.includes(name)) ?? names[0] ?? "";
}

export function rememberAgent(name: string): void {
  localStorage.setItem(LAST, name);
}

/** What a person chose for the next runs of a thread; what is missing is that of the run before. */
export interface Chosen {
  agent_type?: string;
  /** Null is the agent's own. */
  model?: string | null;
}

const CHOSEN = "holdfast.chosen.";

export function readChosen(thread: string): Chosen {
  try {
    return JSON.parse(sessionStorage.getItem(CHOSEN + thread) ?? "{}") as Chosen;
  } catch {
    return {};
  }
}

export function keepChosen(thread: string, chosen: Chosen): void {
  sessionStorage.setItem(CHOSEN + thread, JSON.stringify(chosen));
}

/** The models of the providers that have a key. */
async function readModels(): Promise<void> {
  const catalog = await get<ModelCatalog>("/models");
  const ready = new Set(catalog.providers.filter((each) => each.has_key).map((each) => each.name));
  models.value = catalog.models
    .filter((model) => ready.has(model.provider))
    .map((model) => ({ value: model.id, label: model.id, ...priceOf(model) }));
}

function priceOf(model: ModelCatalog["models"][number]): { hint?: string } {
  const { input_usd_per_million: input, output_usd_per_million: output } = model;
  return input == null || output == null ? {} : { hint: `$${input} in, $${output} out per million` };
}

/** The name of a model without its provider. */
export const shortModel = (model: string): string => model.replace(/^[^:]*:/, "");

interface Props {
  agent: string;
  /** The model that was chosen; null is the agent's own. */
  model: string | null;
  /** The model of the run before, if it was of this agent. */
  last?: string | null | undefined;
  onAgent?: (name: string) => void;
  onModel: (model: string | null) => void;
}

export function Answerer({ agent, model, last, onAgent, onModel }: Props) {
  const open = useSignal<"agent" | "model" | null>(null);
  useEffect(() => {
    if (open.value !== null && agents.value === null) void readAgents().catch(() => (agents.value = []));
    if (open.value === "model" && models.value === null) void readModels().catch(() => (models.value = []));
  }, [open.value]);
  const own = agents.value?.find((each) => each.name === agent)?.models ?? [];
  const shown = shortModel(model ?? own[0] ?? last ?? "its own");
  const close = (): void => {
    open.value = null;
  };
  return (
    <>
      {onAgent && (
        <button type="button" class="bare" aria-label={`Agent: ${agent}`} onClick={() => (open.value = "agent")}>
          {agent}
        </button>
      )}
      <button type="button" class="bare model" aria-label={`Model: ${shown}`} onClick={() => (open.value = "model")}>
        {shown}
      </button>
      {open.value === "agent" && (
        <Pick
          title="Which agent answers?"
          options={
            agents.value?.map((each) => ({ value: each.name, label: each.name, hint: each.description })) ?? null
          }
          onPick={(name) => onAgent?.(name)}
          onClose={close}
        />
      )}
      {open.value === "model" && (
        <Pick
          title="Which model answers?"
          free
          options={[{ value: "", label: "The agent's own", hint: own.join(", then ") }, ...(models.value ?? [])]}
          onPick={(value) => onModel(value || null)}
          onClose={close}
        />
      )}
    </>
  );
}
