/** The first words of a thread: choose an agent, and say something. */
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { ApiError, get, newKey, post } from "../../api/client";
import { BASE } from "../../api/space";
import type { Agent, AgentPage, Run } from "../../api/types";
import { recent } from "../../live/threads";

const agents = signal<Agent[] | null>(null);
const DRAFT = "holdfast.draft.new";
const AGENT = "holdfast.agent";

const AFTER_ROWS_MS = 300; // the rows come first

async function readAgents(): Promise<void> {
  const page = await get<AgentPage>("/api/agents?limit=200").catch(() => null);
  if (page) agents.value = page.items;
}

export function NewThread() {
  const { route, query } = useLocation();
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const ready = recent.items.value !== null;
  useEffect(() => {
    if (agents.value !== null || !ready) return;
    const timer = setTimeout(() => void readAgents(), AFTER_ROWS_MS);
    return () => clearTimeout(timer);
  }, [ready]);
  const send = async (form: HTMLFormElement): Promise<void> => {
    const text = (form.elements.namedItem("first-words") as HTMLTextAreaElement).value;
    const agent = (form.elements.namedItem("agent") as HTMLSelectElement).value;
    if (text.trim() === "" || busy) return;
    setBusy(true);
    setError("");
    try {
      const run = await post<Run>("/api/runs", { input: text, ...(agent && { agent_type: agent }) }, key.current);
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
          placeholder="Begin a thread: say something to an agent"
          defaultValue={sessionStorage.getItem(DRAFT) ?? ""}
          onInput={(event) => sessionStorage.setItem(DRAFT, event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
        <div class="do">
          <select
            name="agent"
            aria-label="Agent"
            value={query.agent ?? localStorage.getItem(AGENT) ?? ""}
            onChange={(event) => localStorage.setItem(AGENT, event.currentTarget.value)}
          >
            <option value="">default agent</option>
            {agents.value?.map((agent) => (
              <option key={agent.name} value={agent.name}>
                {agent.name}
              </option>
            ))}
          </select>
          <button type="submit" disabled={busy}>
            Send
          </button>
        </div>
      </div>
      {error && (
        <p class="fail" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
