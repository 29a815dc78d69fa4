/** The values of the API that the console shows, under short names. */
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Agent = Schemas["AgentView"];
export type AgentPage = Schemas["AgentPage"];
export type Artifact = Schemas["Artifact"];
export type Interrupt = Schemas["Interrupt"];
export type ListedThread = Schemas["ListedThread"];
export type Me = Schemas["Me"];
export type Message = Schemas["Message"];
export type Run = Schemas["Run"];
export type RunStatus = Run["status"];
export type Step = Schemas["Step"];
export type Task = Schemas["ThreadTask"];
export type ThreadDetail = Schemas["ThreadDetail"];

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export const ENDED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "cancelled"]);
