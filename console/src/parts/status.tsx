/** A status is a shape first, then a colour, and always a word. */
import type { RunStatus } from "../api/types";

interface Standing {
  status: RunStatus;
  status_reason: string | null;
}

type Mark = "live" | "waiting" | "done" | "failed" | "";

export function markOf(run: Standing | null | undefined): Mark {
  if (!run) return "";
  switch (run.status) {
    case "running":
      return "live";
    case "waiting":
      return run.status_reason === "person" ? "waiting" : "live";
    case "pending":
    case "queued":
    case "cancelled":
      return "";
    case "completed":
      return "done";
    case "failed":
      return "failed";
  }
}

export function statusWord(run: Standing | null | undefined): string {
  if (!run) return "no run yet";
  if (run.status !== "waiting") return run.status;
  return run.status_reason === "person" ? "waiting for you" : `waiting for a ${run.status_reason ?? "while"}`;
}

export function Dot({ mark }: { mark: Mark }) {
  return <i class={mark === "" ? "dot" : `dot is-${mark}`} aria-hidden="true" />;
}

export function Status({ run }: { run: Standing | null | undefined }) {
  const mark = markOf(run);
  const tone = mark === "waiting" ? "wait " : mark === "live" ? "live " : mark === "failed" ? "fail " : "";
  return (
    <span class={`${tone}state`}>
      <Dot mark={mark} />
      {statusWord(run)}
    </span>
  );
}
