/** The events of a run's log that the console reads, out of all that `events.schema.json` describes. */
import type { components } from "../api/events.schema";

type Schemas = components["schemas"];
/** The log stamps every event with its time. */
type Timed<Event> = Event extends unknown ? Omit<Event, "timestamp"> & { timestamp: number } : never;

/** Types that the log of a run never has, or that say nothing that others do not. */
type Ignored =
  | "STEP_STARTED"
  | "STEP_FINISHED"
  | "TEXT_MESSAGE_CHUNK"
  | "TOOL_CALL_CHUNK"
  | "STATE_SNAPSHOT"
  | "STATE_DELTA"
  | "MESSAGES_SNAPSHOT"
  | "REASONING_START"
  | "REASONING_END"
  | "REASONING_MESSAGE_END"
  | "REASONING_MESSAGE_CHUNK"
  | "REASONING_ENCRYPTED_VALUE"
  | "RAW";

export type LogEvent = Timed<Exclude<Schemas["AnyEvent"], { type: Ignored }>>;
type CustomEvent = Extract<LogEvent, { type: "CUSTOM" }>;
export type CustomValues = { [Event in CustomEvent as Event["name"]]: Event["value"] };
export type PlannedItem = Schemas["PlanItem"];
export type CallState = "asked" | Schemas["StepState"];

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
