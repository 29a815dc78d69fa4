/** The agents that this space has of its own: made, edited and deleted here. Those of the workspace are folders. */
import { useSignal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { patch, post, request } from "../../api/client";
import { BASE } from "../../api/space";
import type { Agent } from "../../api/types";
import { Act, type Field, Form, type Values } from "../../parts/act";
import { agents } from "../../parts/answerer";
import { words } from "../../words/en";

function fieldsOf(agent?: Agent): Field[] {
  return [
    { name: "model", label: "Model", first: agent?.models[0] ?? "openai:gpt-5", required: true, hint: words.modelHint },
    { name: "description", label: "What it is for", first: agent?.description ?? "" },
    { name: "tools", label: "Tools, with commas", first: agent?.tools?.join(", ") ?? "" },
    { name: "instructions", label: "Instructions", kind: "text", first: agent?.instructions ?? "", required: true },
  ];
}

/** The definition in a form; of an agent that exists, what differs: what the form does not show stays as it is. */
function definitionOf(given: Values, agent?: Agent) {
  const before = Object.fromEntries(fieldsOf(agent).map(({ name, first }) => [name, first]));
  const { instructions, ...settings } = Object.fromEntries(
    Object.entries(given).filter(([name, value]) => !agent || value !== before[name]),
  );
  const tools = settings.tools?.split(",").map((tool) => tool.trim());
  return { settings: { ...settings, ...(tools && { tools: tools.filter(Boolean) }) }, instructions };
}

export function NewAgent({ after }: { after: () => void }) {
  const open = useSignal(false);
  return (
    <>
      <button type="button" onClick={() => (open.value = true)}>
        New…
      </button>
      {open.value && (
        <Form
          title="New agent of this space"
          action="Create"
          fields={[{ name: "name", label: "Name", required: true }, ...fieldsOf()]}
          onSend={async ({ name = "", ...given }, key) => {
            await post("/api/agents", { name, ...definitionOf(given) }, key);
            agents.value = null; // the composer reads them again
            after();
          }}
          onClose={() => (open.value = false)}
        />
      )}
    </>
  );
}

export function OwnActs({ agent, refresh }: { agent: Agent; refresh: () => void }) {
  const { route } = useLocation();
  const editing = useSignal(false);
  const path = `/api/agents/${encodeURIComponent(agent.name)}`;
  const headers = { "If-Match": `"${agent.version}"` };
  const gone = (): void => {
    agents.value = null;
    route(`${BASE}/agents`);
  };
  return (
    <>
      <button type="button" onClick={() => (editing.value = true)}>
        Edit…
      </button>
      <Act
        look="fail"
        sure="Delete this agent? Runs that have begun go on."
        do={() => request("DELETE", path, { headers })}
        after={gone}
      >
        Delete
      </Act>
      {editing.value && (
        <Form
          title={`Edit ${agent.name}`}
          action="Save"
          fields={fieldsOf(agent)}
          onSend={async (given) => {
            await patch(path, definitionOf(given, agent), headers);
            refresh();
          }}
          onClose={() => (editing.value = false)}
        />
      )}
    </>
  );
}
