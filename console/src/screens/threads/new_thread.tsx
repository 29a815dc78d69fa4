/** The first words of a thread: say something to an agent, and choose which one and its model. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { ApiError, newKey, post } from "../../api/client";
import { BASE } from "../../api/space";
import type { Run } from "../../api/types";
import { recent } from "../../live/threads";
import { Answerer, agents, firstAgent, keepChosen, readAgents, rememberAgent } from "../../parts/answerer";
import { Command } from "../../parts/states";
import { words } from "../../words/en";

const DRAFT = "holdfast.draft.new";
const AFTER_ROWS_MS = 300; // the rows come first

export function NewThread() {
  const { route, query } = useLocation();
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [chosen, choose] = useState("");
  const [model, setModel] = useState<string | null>(null);
  const key = useRef(newKey());
  const ready = recent.items.value !== null;
  useEffect(() => {
    if (agents.value !== null || !ready) return;
    const timer = setTimeout(() => void readAgents().catch(() => {}), AFTER_ROWS_MS);
    return () => clearTimeout(timer);
  }, [ready]);
  const agent = firstAgent(chosen || query.agent);
  const send = async (form: HTMLFormElement): Promise<void> => {
    const text = (form.elements.namedItem("first-words") as HTMLTextAreaElement).value;
    if (text.trim() === "" || busy) return;
    setBusy(true);
    setError("");
    try {
      if (agents.value === null) await readAgents();
      const agent_type = firstAgent(chosen || query.agent);
      const body = { input: text, ...(agent_type && { agent_type }), ...(model && { model }) };
      const run = await post<Run>("/api/runs", body, key.current);
      if (agent_type) rememberAgent(agent_type);
      if (model) keepChosen(run.thread_id, { model });
      sessionStorage.removeItem(DRAFT);
      key.current = newKey();
      route(`${BASE}/t/${run.thread_id}`);
    } catch (failed) {
      setError(failed instanceof ApiError ? failed.message : String(failed));
      setBusy(false);
    }
  };
  return (
    <form
      class="say new"
      onSubmit={(event) => {
        event.preventDefault();
        void send(event.currentTarget);
      }}
    >
      <div class="box">
        <label class="sr" for="first-words">
          Begin a thread
        </label>
        <textarea
          id="first-words"
          name="first-words"
          rows={1}
          placeholder={agent ? `Say something to ${agent}` : "Begin a thread: say something to an agent"}
          defaultValue={sessionStorage.getItem(DRAFT) ?? ""}
          onInput={(event) => sessionStorage.setItem(DRAFT, event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
        <div class="do">
          {agent && <Answerer agent={agent} model={model} onAgent={choose} onModel={setModel} />}
          <button type="submit" disabled={busy}>
            Send
          </button>
        </div>
      </div>
      {agents.value?.length === 0 && (
        <div class="meaning">
          <p class="quiet">
            {words.noAgents} <a href={`${BASE}/agents`}>See the agents with errors</a>
          </p>
          <Command text={words.noAgentsCommand} />
        </div>
      )}
      {error && (
        <p class="fail" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
