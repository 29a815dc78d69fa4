/** What a run was begun with, in one line: the words of a person, or the heartbeat or reminder that was due. */
import { clock, exact } from "./format";

const DAY_MS = 86_400_000;

export function runInput(input: unknown): string {
  if (typeof input === "string") return input;
  if (input === null || input === undefined) return "";
  return firing(input as Record<string, unknown>) ?? JSON.stringify(input);
}

/** The run of a schedule is told which one, and when it was due. */
function firing({ schedule_id: id, name, due_at: due, reminder }: Record<string, unknown>): string | null {
  if (typeof id !== "string" || typeof due !== "string" || Number.isNaN(Date.parse(due))) return null;
  if (typeof reminder === "string") return reminder;
  const isRecent = Date.now() - Date.parse(due) < DAY_MS;
  const short = typeof name === "string" && name ? name.split("/").slice(1).join("/") || name : id;
  return `${short}, due ${isRecent ? clock(due) : exact(due)}`;
}
