/** The events of a run's log that the console reads, as `docs/reference/events.md` describes them. */
import type { Task } from "../api/types";

interface Timed {
  timestamp: number;
  /** Events of a sub-agent that are shown in the log of its parent. */
  subagentRunId?: string;
}

export type CallState = "asked" | "started" | "waiting" | "done" | "failed" | "unknown";

export interface CustomValues {
  "holdfast.status": { from: string; to: string; reason?: string };
  "holdfast.step": {
    number: number;
    kind: "model" | "tool";
    state: CallState;
    key: string;
    attempt: number;
    tool_call_id?: string;
  };
  "holdfast.plan": { items: Task[] };
  "holdfast.artifact": { artifact_id: string; type: string; title: string; version: number; size?: number };
  "holdfast.budget": { tokens: number; cost_usd?: number; token_budget?: number; cost_budget_usd?: number };
  "holdfast.abandoned": { message_ids: string[]; through: number };
  "holdfast.interrupt": { interrupt_id: string; status: string; tool_call_id?: string; answered_by?: string };
  "holdfast.child": { run_id: string; thread_id: string; status: string; agent_type?: string; tool_call_id?: string };
  "holdfast.log": { message: string };
  "holdfast.file": { path: string; action: string; size: number; diff?: string; tool_call_id?: string };
  "holdfast.compaction": { through: number; tokens_before: number; tokens_after: number };
  "holdfast.taint": { source: string; tool_call_id?: string };
  "holdfast.mcp": { server: string; message: string; remedy?: string };
  "holdfast.retry": { message: string; failures: number; max_failures: number; retry_at: string };
  "holdfast.permission": {
    tool_call_id: string;
    tool: string;
    decision: "allow" | "ask" | "deny";
    rule?: string;
    reason?: string;
    by?: string;
    granted?: string[];
  };
}

type CustomEvent = {
  [Name in keyof CustomValues]: Timed & { type: "CUSTOM"; name: Name; value: CustomValues[Name] };
}[keyof CustomValues];

export type LogEvent =
  | (Timed & { type: "RUN_STARTED"; runId: string })
  | (Timed & { type: "RUN_FINISHED"; outcome?: { type: string } })
  | (Timed & { type: "RUN_ERROR"; message: string; code?: string })
  | (Timed & { type: "TEXT_MESSAGE_START"; messageId: string; role?: string })
  | (Timed & { type: "TEXT_MESSAGE_CONTENT"; messageId: string; delta: string })
  | (Timed & { type: "TEXT_MESSAGE_END"; messageId: string })
  | (Timed & { type: "TOOL_CALL_START"; toolCallId: string; toolCallName: string; parentMessageId?: string })
  | (Timed & { type: "TOOL_CALL_ARGS"; toolCallId: string; delta: string })
  | (Timed & { type: "TOOL_CALL_END"; toolCallId: string })
  | (Timed & { type: "TOOL_CALL_RESULT"; messageId: string; toolCallId: string; content: unknown })
  | (Timed & { type: "REASONING_MESSAGE_START"; messageId: string })
  | (Timed & { type: "REASONING_MESSAGE_CONTENT"; messageId: string; delta: string })
  | (Timed & { type: "ACTIVITY_SNAPSHOT"; messageId: string; activityType: string; content: Record<string, unknown> })
  | (Timed & { type: "ACTIVITY_DELTA"; messageId: string; activityType: string; patch: JsonPatch[] })
  | (Timed & { type: "SUBAGENT_STARTED"; subagentRunId: string; name: string; parentToolCallId?: string })
  | (Timed & { type: "SUBAGENT_FINISHED"; subagentRunId: string; outcome?: { type: string } })
  | (Timed & { type: "SUBAGENT_ERROR"; subagentRunId: string; message: string })
  | CustomEvent;

export interface JsonPatch {
  op: string;
  path: string;
  value?: unknown;
}

/** The types of the events that an ended run is read with: all but the pieces of its messages, which are in history. */
export const FACT_TYPES = [
  "CUSTOM",
  "RUN_STARTED",
  "RUN_FINISHED",
  "RUN_ERROR",
  "SUBAGENT_STARTED",
  "SUBAGENT_FINISHED",
  "SUBAGENT_ERROR",
] as const;
