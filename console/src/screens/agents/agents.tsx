/** The agents of the workspace, broken ones too; and one agent with all that it may do. */
import { BASE } from "../../api/space";
import type { Agent, AgentPage as Agents_, BrokenAgent, UsageReport } from "../../api/types";
import { count, money, plural } from "../../parts/format";
import { Markdown } from "../../parts/markdown";
import { Rows } from "../../parts/rows";
import { Facts, Filters, Screen, Scroll, Section, Shown, useFilters, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { words } from "../../words/en";
import { NewAgent, OwnActs } from "./own";
import { Versions } from "./versions";

export function Agents() {
  const page = useResource<Agents_>("/api/agents?limit=200");
  const { query } = useFilters();
  const q = (query.q ?? "").toLowerCase();
  return (
    <Screen
      title="Agents"
      filters={<Filters search={{ name: "q", label: "Filter agents" }} />}
      actions={<NewAgent after={page.refresh} />}
    >
      <Shown of={page} label="Loading agents">
        {({ items, broken }) => (
          <>
            <Broken agents={broken} />
            {items.length === 0 && <Empty command={words.noAgentsCommand}>{words.noAgents}</Empty>}
            {items.length > 0 && (
              <Rows
                label="Agents"
                items={items.filter((agent) => `${agent.name} ${agent.description}`.toLowerCase().includes(q))}
                keyOf={(agent) => agent.name}
                href={(agent) => `${BASE}/agents/${encodeURIComponent(agent.name)}`}
                columns={[
                  { label: "name", width: "12rem", show: (agent) => agent.name },
                  { label: "what it is for", width: "minmax(0, 1fr)", as: "quiet", show: (agent) => agent.description },
                  { label: "model", width: "12rem", as: "quiet", show: (agent) => agent.models[0] ?? "" },
                  { label: "pool", width: "6rem", as: "desk", show: (agent) => agent.pool },
                  { label: "tools", width: "4rem", as: "desk", show: (agent) => count(agent.tools?.length ?? 0) },
                ]}
              />
            )}
          </>
        )}
      </Shown>
    </Screen>
  );
}

function Broken({ agents }: { agents: BrokenAgent[] }) {
  if (agents.length === 0) return null;
  return (
    <ul class="broken" aria-label="Broken agents">
      {agents.map((agent) => (
        <li key={agent.name}>
          <p>
            <Dot mark="failed" />
            <b>{agent.name}</b> <span class="mono quiet">{agent.file}</span>
          </p>
          <p class="fail">{agent.message}</p>
        </li>
      ))}
    </ul>
  );
}

export function AgentPage({ name = "" }: { name?: string }) {
  const agent = useResource<Agent>(`/api/agents/${encodeURIComponent(name)}`);
  const found = agent.value.value;
  const acts = (
    <>
      <a class="button first" href={`${BASE}/threads?agent=${encodeURIComponent(name)}`}>
        Talk to it
      </a>
      {found?.space_id != null && <OwnActs agent={found} refresh={agent.refresh} />}
    </>
  );
  return (
    <Screen title={name} back={{ href: `${BASE}/agents`, label: "Agents" }} actions={acts}>
      <Scroll>
        <Shown of={agent} label="Loading the agent">
          {(found) => <Details agent={found} refresh={agent.refresh} />}
        </Shown>
      </Scroll>
    </Screen>
  );
}

function Details({ agent, refresh }: { agent: Agent; refresh: () => void }) {
  const { deny = [], ask = [], allow = [] } = agent.permissions;
  const limits = Object.entries(agent.limits).filter(([, value]) => value !== null && value !== false);
  return (
    <>
      <Section label="About">
        <p class="prose">{agent.description}</p>
        <Facts
          of={[
            ["of", agent.space_id == null ? "the workspace" : "this space"],
            ["models", <span class="mono">{agent.models.join(", then ")}</span>],
            ["pool", <span class="mono">{agent.pool}</span>],
            ["modes", agent.modes?.join(", ")],
            ["skills", Array.isArray(agent.skills) ? agent.skills.join(", ") : agent.skills],
            ["MCP servers", agent.mcp_servers?.join(", ")],
            ["contract", agent.contract],
            ["unknown outcome", agent.unknown_outcome],
            ["temperature", agent.temperature],
            ["thinking", agent.thinking === null ? null : String(agent.thinking)],
            ["digest", <span class="mono">{agent.digest.slice(0, 16)}</span>],
          ]}
        />
      </Section>
      <Cost name={agent.name} />
      <Versions agent={agent.name} after={refresh} />
      <Section label="Tools" note={plural(agent.tools?.length ?? 0, "tool")}>
        {agent.tools?.length === 0 && <p class="quiet">It only talks.</p>}
        <p class="chips">
          {agent.tools?.map((tool) => (
            <span key={tool} class="chip mono">
              {tool}
            </span>
          ))}
        </p>
      </Section>
      <Section label="Rules and limits">
        <Facts
          of={[
            ["denied", <Rules of={deny} />],
            ["asked for", <Rules of={ask} />],
            ["allowed", <Rules of={allow} />],
            ...limits.map(([limit, value]) => [limit.replaceAll("_", " "), count(Number(value))] as const),
          ]}
        />
      </Section>
      <Section label="Instructions">
        <div class="prose text">
          <Markdown text={agent.instructions} />
        </div>
      </Section>
      {agent.soul && (
        <Section label="Soul">
          <div class="prose text">
            <Markdown text={agent.soul} />
          </div>
        </Section>
      )}
    </>
  );
}

function Rules({ of }: { of: readonly string[] }) {
  if (of.length === 0) return <span class="quiet">nothing</span>;
  return (
    <span class="chips">
      {of.map((rule) => (
        <span key={rule} class="chip mono">
          {rule}
        </span>
      ))}
    </span>
  );
}

function Cost({ name }: { name: string }) {
  const usage = useResource<UsageReport>("/api/usage?group_by=agent");
  const own = usage.value.value?.items.find((each) => each.name === name);
  if (!own) return null;
  return (
    <Section label="Latest 30 days">
      <div class="totals">
        <p>
          <b>{money(own.cost_usd)}</b>
          <span>
            {own.unpriced_calls ? `without ${plural(own.unpriced_calls, "unpriced call")}` : "all calls priced"}
          </span>
        </p>
        <p>
          <b>{count(own.calls)}</b>
          <span>model calls</span>
        </p>
        <p>
          <b>{count(own.input_tokens + own.output_tokens)}</b>
          <span>tokens</span>
        </p>
      </div>
    </Section>
  );
}
