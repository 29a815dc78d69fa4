/** The conversation of a branch as rows: what history has, and what the logs of its runs add to it. */
import type { Message, Run, Step } from "../api/types";
import { type Break, type Call, type LiveMessage, newCall, type RunLog, textOf } from "./run_log";

export type Row =
  | {
      kind: "user";
      key: string;
      runId: string;
      id: string;
      sequence: number | null;
      text: string;
      by: string;
      at: string;
    }
  | AgentRow
  | { kind: "break"; key: string; runId: string; cut: Break }
  | { kind: "note"; key: string; runId: string; text: string }
  | { kind: "failed"; key: string; runId: string; run: Run };

export interface AgentRow {
  kind: "agent";
  key: string;
  runId: string;
  id: string;
  sequence: number | null;
  /** The last message that belongs to it: that of its last tool result. A fork continues after it. */
  end: number | null;
  agent: string;
  text: string;
  /** The message while its text grows: the row reads it from the log. */
  live: LiveMessage | null;
  calls: Call[];
  abandoned: boolean;
  /** The number of this answer among those of its run: the step of that model call has its time and cost. */
  modelCall: number;
  forks: number;
}

export interface Chain {
  runs: readonly Run[];
  messages: readonly Message[];
  logs: ReadonlyMap<string, RunLog>;
  /** How many runs continue from each message, by sequence, besides the one that is shown. */
  forks: ReadonlyMap<number, number>;
}

export function rowsOf(chain: Chain): Row[] {
  const rows: Row[] = [];
  const byRun = new Map<string, Message[]>(chain.runs.map((run) => [run.id, []]));
  for (const message of chain.messages) byRun.get(message.run_id)?.push(message);
  for (const run of chain.runs) {
    const found = byRun.get(run.id) ?? [];
    const log = chain.logs.get(run.id);
    if (found.length > 0 || (log && log.messages.length > 0)) addRun(rows, run, found, log, chain.forks);
    if (run.status === "failed" && (found.length > 0 || log))
      rows.push({ kind: "failed", key: `${run.id}!`, runId: run.id, run });
  }
  return rows;
}

function addRun(rows: Row[], run: Run, history: Message[], log: RunLog | undefined, forks: Chain["forks"]): void {
  const results = new Map(
    history.filter((each) => each.tool_call_id !== null).map((each) => [each.tool_call_id, each]),
  );
  const live = new Map(log?.messages.map((each) => [each.id, each]));
  let answers = 0;
  const cuts = [...(log?.breaks ?? [])];
  const notes = [...(log?.notes ?? [])];
  const flush = (): void => {
    while (cuts[0] && cuts[0].after <= answers) {
      const cut = cuts.shift() as Break;
      rows.push({ kind: "break", key: `${run.id}/cut${cut.lostAt}.${log?.breaks.indexOf(cut)}`, runId: run.id, cut });
    }
    while (notes[0] && notes[0].after < answers) {
      const at = (log?.notes.length ?? 0) - notes.length;
      rows.push({ kind: "note", key: `${run.id}/note${at}`, runId: run.id, text: notes.shift()?.text ?? "" });
    }
  };
  for (const each of merged(history, log?.messages ?? [])) {
    const { message, grown } = each;
    const role = message?.role ?? grown?.role;
    if (role === "tool" || role === "system") continue;
    const id = (message ?? grown)?.id ?? "";
    const sequence = message?.sequence ?? null;
    const key = `${run.id}/${id}`;
    if (role === "user") {
      const at = message?.created_at ?? new Date(grown?.at ?? 0).toISOString();
      const text = message ? textOf(message.content) : (grown?.text ?? "");
      rows.push({ kind: "user", key, runId: run.id, id, sequence, text, by: message?.created_by ?? "", at });
      continue;
    }
    if (grown?.abandoned !== true) flush();
    rows.push({
      kind: "agent",
      key,
      runId: run.id,
      id,
      sequence,
      end: message
        ? Math.max(sequence ?? 0, ...message.tool_calls.map((each) => results.get(each.id)?.sequence ?? 0))
        : null,
      agent: run.agent_type,
      text: message ? textOf(message.content) : (grown?.text ?? ""),
      live: message ? null : (live.get(id) ?? null),
      calls: callsOf(message, grown, results, log),
      abandoned: grown?.abandoned ?? false,
      modelCall: grown?.abandoned ? -1 : answers,
      forks: sequence === null ? 0 : (forks.get(sequence) ?? 0),
    });
    if (grown?.abandoned !== true) answers += 1;
  }
  answers += 1;
  flush();
}

/** The place of the row that shows a step: the answer of that model call, or the answer that asked for the tool. */
export function rowOfStep(rows: readonly Row[], runId: string, steps: readonly Step[], step: number): number {
  if (step === 0) return rows.length; // what is open now is at the end
  const call = steps.filter((each) => each.kind === "model" && each.state === "done" && each.number <= step).length - 1;
  return rows.findIndex((row) => row.kind === "agent" && row.runId === runId && row.modelCall === Math.max(0, call));
}

interface Merged {
  message: Message | null;
  grown: LiveMessage | null;
}

/** History in its order, and between its messages those that only the log has: the growing ones and the void ones. */
export function merged(history: readonly Message[], live: readonly LiveMessage[]): Merged[] {
  const items: Merged[] = history.map((message) => ({ message, grown: null }));
  const places = new Map(history.map((message, index) => [message.id, index]));
  const inserts: { at: number; grown: LiveMessage }[] = [];
  let place = 0;
  for (const grown of live) {
    const found = places.get(grown.id);
    if (found === undefined) {
      inserts.push({ at: place, grown });
      continue;
    }
    (items[found] as Merged).grown = grown;
    place = found + 1;
  }
  // A message that follows the last known one comes after the results and the words of people that history has since.
  for (const each of inserts) if (each.at === place) each.at = items.length;
  for (const { at, grown } of inserts.reverse()) items.splice(at, 0, { message: null, grown });
  return items;
}

function callsOf(
  message: Message | null,
  grown: LiveMessage | null,
  results: ReadonlyMap<string | null, Message>,
  log: RunLog | undefined,
): Call[] {
  if (message === null) return (grown?.calls ?? []).map((id) => log?.calls[id] ?? newCall(id));
  return message.tool_calls.map((asked) => {
    const result = results.get(asked.id);
    const known = log?.calls[asked.id] ?? newCall(asked.id, asked.name);
    const failed = result?.metadata.failed;
    const settled = failed === "unknown" || failed === "failed" ? failed : "done";
    return {
      ...known,
      name: asked.name,
      args: known.args || JSON.stringify(asked.arguments),
      result: result ? textOf(result.content) : known.result,
      state: result ? settled : known.state,
    };
  });
}
