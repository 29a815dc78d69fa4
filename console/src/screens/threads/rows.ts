import type { ListedThread } from "../../api/types";

/** When something last happened on a thread. */
export function lastOf(thread: ListedThread): string {
  return thread.latest_run?.completed_at ?? thread.last_run_at ?? thread.created_at;
}
