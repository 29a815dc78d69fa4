/**
 * A run as its log tells it: one event after the other, none twice, none out of order.
 *
 * `apply` changes the log it is given and says what changed, so that a token touches only the text that grows. The
 * result depends on the events alone: any prefix, cut and repeat of them gives the same log.
 */
import type { CustomValues, LogEvent } from "./events";
import { type Break, type Call, type LiveMessage, newCall, type RunLog, textOf } from "./run_log";

/** What an event changed: nothing, the text of one message, or the shape of the log. */
export type Change = { kind: "none" } | { kind: "text"; id: string } | { kind: "shape" } | { kind: "gap" };

const NONE: Change = { kind: "none" };
const SHAPE: Change = { kind: "shape" };

/** Apply the event with the number `seq`. A repeated one changes nothing; a gap is reported and changes nothing. */
export function apply(log: RunLog, seq: number, event: LogEvent): Change {
  if (seq <= log.seq) return NONE;
  if (seq !== log.seq + 1) return { kind: "gap" };
  log.seq = seq;
  return applyFact(log, event);
}

/** Apply an event whose number does not matter: those of an ended run come without the pieces of its messages. */
export function applyFact(log: RunLog, event: LogEvent): Change {
  const change = reduce(log, event);
  log.at = event.timestamp;
  return change;
}

function reduce(log: RunLog, event: LogEvent): Change {
  if ("subagentRunId" in event && event.subagentRunId && !event.type.startsWith("SUBAGENT_")) return NONE;
  switch (event.type) {
    case "RUN_STARTED":
      return SHAPE;
    case "RUN_FINISHED":
      log.idle = true;
      return SHAPE;
    case "RUN_ERROR":
      log.error = event.message;
      return SHAPE;
    case "TEXT_MESSAGE_START":
      message(log, event.messageId, event.timestamp).role = event.role ?? "assistant";
      return SHAPE;
    case "TEXT_MESSAGE_CONTENT":
      message(log, event.messageId, event.timestamp).text += event.delta;
      return { kind: "text", id: event.messageId };
    case "TEXT_MESSAGE_END":
      message(log, event.messageId, event.timestamp).done = true;
      return SHAPE;
    case "REASONING_MESSAGE_START":
      return NONE;
    case "REASONING_MESSAGE_CONTENT":
      message(log, event.messageId, event.timestamp).reasoning += event.delta;
      return { kind: "text", id: event.messageId };
    case "TOOL_CALL_START": {
      const asked = call(log, event.toolCallId);
      asked.name = event.toolCallName;
      const parent = message(log, event.parentMessageId ?? `of ${event.toolCallId}`, event.timestamp);
      if (!parent.calls.includes(asked.id)) parent.calls.push(asked.id);
      return SHAPE;
    }
    case "TOOL_CALL_ARGS":
      call(log, event.toolCallId).args += event.delta;
      return SHAPE;
    case "TOOL_CALL_END":
      return SHAPE;
    case "TOOL_CALL_RESULT":
      call(log, event.toolCallId).result = textOf(event.content);
      return SHAPE;
    case "ACTIVITY_SNAPSHOT":
    case "ACTIVITY_DELTA":
      return activity(log, event);
    case "SUBAGENT_STARTED":
      if (event.parentToolCallId !== undefined)
        call(log, event.parentToolCallId).child = { runId: event.subagentRunId, name: event.name, ended: null };
      return SHAPE;
    case "SUBAGENT_FINISHED":
    case "SUBAGENT_ERROR":
      for (const each of Object.values(log.calls))
        if (each.child?.runId === event.subagentRunId)
          each.child = { ...each.child, ended: event.type === "SUBAGENT_ERROR" ? "failed" : "done" };
      return SHAPE;
    case "CUSTOM":
      return custom(log, event);
    default:
      return unknownEvent(event);
  }
}

function custom(log: RunLog, event: Extract<LogEvent, { type: "CUSTOM" }>): Change {
  switch (event.name) {
    case "holdfast.step":
      return step(log, event.value, event.timestamp);
    case "holdfast.plan":
      log.plan = event.value.items;
      return SHAPE;
    case "holdfast.budget":
      log.budget = event.value;
      return SHAPE;
    case "holdfast.abandoned":
      for (const id of event.value.message_ids) {
        const found = log.messages.find((each) => each.id === id);
        if (found) found.abandoned = found.done = true;
      }
      addBreak(log, "lost", event.timestamp, "");
      return SHAPE;
    case "holdfast.retry":
      addBreak(log, "retry", event.timestamp, event.value.message);
      return SHAPE;
    case "holdfast.file":
      if (event.value.tool_call_id !== undefined) call(log, event.value.tool_call_id).file = event.value;
      return SHAPE;
    case "holdfast.permission":
      call(log, event.value.tool_call_id).permission = event.value;
      return SHAPE;
    case "holdfast.interrupt": {
      const { interrupt_id: id, status } = event.value;
      if (status === "open") log.questions[id] = event.value.tool_call_id ?? "";
      else delete log.questions[id];
      return SHAPE;
    }
    case "holdfast.child":
      if (event.value.tool_call_id !== undefined)
        call(log, event.value.tool_call_id).child = {
          runId: event.value.run_id,
          name: event.value.agent_type ?? "",
          ended: event.value.status === "completed" ? "done" : event.value.status === "failed" ? "failed" : null,
        };
      return SHAPE;
    case "holdfast.log":
    case "holdfast.mcp":
    case "holdfast.folder":
      note(log, event.value.message, event.timestamp);
      return SHAPE;
    case "holdfast.compaction": {
      const { tokens_before: before, tokens_after: after } = event.value;
      note(log, `context compacted: ${before.toLocaleString("en")} to ${after.toLocaleString("en")} tokens`, log.at);
      return SHAPE;
    }
    case "holdfast.status":
      // A run that is resumed although it waited for nothing has lost its worker.
      if (event.value.to === "running" && !log.idle) addBreak(log, "lost", event.timestamp, "");
      log.idle = event.value.to !== "running";
      return SHAPE;
    case "holdfast.artifact":
    case "holdfast.taint":
    case "holdfast.skills":
    case "holdfast.skill_contract":
      return SHAPE;
    default:
      return unknownEvent(event);
  }
}

function step(log: RunLog, value: CustomValues["holdfast.step"], at: number): Change {
  if (value.state === "started") log.idle = false;
  const last = log.breaks.at(-1);
  if (last && last.step === null && value.state === "started") {
    last.resumedAt ??= at;
    last.step = value.number;
  }
  if (value.kind === "model") {
    if (value.state === "done") log.modelCalls += 1;
    return SHAPE;
  }
  if (value.tool_call_id === undefined) return NONE;
  const found = call(log, value.tool_call_id);
  if (value.state === "started") {
    found.startedAt ??= at;
  } else if (value.state !== "waiting") found.settledAt = at;
  found.state = value.state;
  found.attempt = value.attempt;
  return SHAPE;
}

function addBreak(log: RunLog, kind: Break["kind"], at: number, text: string): void {
  const last = log.breaks.at(-1);
  const isSame = last?.step === null; // nothing was done since: another event of the same cut
  if (kind === "lost" && isSame) return;
  if (kind === "retry" && isSame) log.breaks.pop();
  log.breaks.push({ kind, lostAt: log.at || at, resumedAt: null, step: null, after: log.modelCalls, message: text });
}

function note(log: RunLog, text: string, at: number): void {
  log.notes.push({ text, at, after: log.modelCalls });
}

function activity(log: RunLog, event: Extract<LogEvent, { type: "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" }>): Change {
  if (event.activityType !== "holdfast.output") return NONE;
  if (event.type === "ACTIVITY_SNAPSHOT") {
    const id = String(event.content.tool_call_id);
    log.activities[event.messageId] = id;
    const written = event.content.output;
    call(log, id).output = Array.isArray(written) ? written.join("") : "";
    return SHAPE;
  }
  const id = log.activities[event.messageId];
  if (id === undefined) return NONE;
  for (const each of event.patch) if (each.op === "add") call(log, id).output += String(each.value ?? "");
  return SHAPE;
}

function message(log: RunLog, id: string, at: number): LiveMessage {
  const last = log.messages.at(-1);
  const found = last?.id === id ? last : log.messages.find((each) => each.id === id);
  if (found) return found;
  const made = { id, role: "assistant", text: "", reasoning: "", done: false, abandoned: false, at, calls: [] };
  log.messages.push(made);
  return made;
}

function call(log: RunLog, id: string): Call {
  log.calls[id] ??= newCall(id);
  return log.calls[id];
}

/** A type that this version does not know is skipped; a new one in `LogEvent` without a case fails the build. */
function unknownEvent(_: never): Change {
  return NONE;
}
