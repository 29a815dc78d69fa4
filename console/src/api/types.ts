/** The values of the API that the console shows, under short names. */
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Agent = Schemas["AgentView"];
export type AgentPage = Schemas["AgentPage"];
export type AgentVersion = Schemas["AgentVersionView"];
export type AgentVersionDiff = Schemas["AgentVersionDiff"];
export type AgentVersionPage = Schemas["AgentVersionPage"];
export type Artifact = Schemas["Artifact"];
export type ArtifactDetail = Schemas["ArtifactDetail"];
export type Interrupt = Schemas["Interrupt"];
export type ListedThread = Schemas["ListedThread"];
export type Me = Schemas["Me"];
export type Message = Schemas["Message"];
export type Run = Schemas["Run"];
export type RunStatus = Run["status"];
export type Step = Schemas["RecordedStep"];
export type Task = Schemas["ThreadTask"];
export type ThreadDetail = Schemas["ThreadDetail"];

export type ApiKey = Schemas["ApiKey"];
export type BrokenAgent = Schemas["BrokenAgent"];
export type CatalogSkill = Schemas["CatalogSkill"];
export type CustomSkill = Schemas["CustomSkill"];
export type DaemonDetail = Schemas["DaemonDetail"];
export type DaemonView = Schemas["DaemonView"];
export type Found = Schemas["Found"];
export type FoundList = Schemas["FoundList"];
export type Firing = Schemas["Firing"];
export type Grant = Schemas["Grant"];
export type KnownModel = Schemas["KnownModel"];
export type Memory = Schemas["Memory"];
export type MemoryVersion = Schemas["MemoryVersion"];
export type ModelCatalog = Schemas["ModelCatalog"];
export type Notification = Schemas["Notification"];
export type Provenance = Schemas["Provenance"];
type Branch = Required<Schemas["BranchView"]>;
export type Comparison = Omit<Schemas["Comparison"], "a" | "b"> & { a: Branch; b: Branch };
export type DetailedRun = Schemas["DetailedRun"];
export type RecordedStep = Schemas["RecordedStep"];
export type Reminder = Schemas["Reminder"];
export type QueueView = Schemas["Queue"];
export type RunContext = Schemas["RunContextView"];
export type RunSkills = Schemas["RunSkillsView"];
export type Schedule = Schemas["Schedule"];
export type ScheduleDetail = Schemas["ScheduleDetail"];
export type SearchHit = Schemas["SearchHit"];
export type SettingsView = Schemas["SettingsView"];
export type SkillCatalog = Schemas["SkillCatalogView"];
export type SkillVersion = Schemas["SkillVersion"];
export type SpaceBudget = Schemas["SpaceBudget"];
export type ThreadResults = Schemas["ThreadResults"];
export type Space = Schemas["Space"];
export type UsageTotal = Required<Schemas["UsageTotal"]>;
export type UsageReport = Omit<Schemas["UsageReport"], "items" | "total"> & { items: UsageTotal[]; total: UsageTotal };

export type WorkerView = Schemas["WorkerStatus"];

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export const ENDED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "cancelled"]);
