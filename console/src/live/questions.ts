/** The open questions of the space: one list for the inbox, the badge and the threads. */
import { computed, signal } from "@preact/signals";
import { ApiError, get, newKey, post, url } from "../api/client";
import type { Interrupt, Page } from "../api/types";
import { throttled } from "./throttle";

export const questions = signal<Interrupt[] | null>(null);
export const questionsError = signal<ApiError | null>(null);
export const answered = signal<Interrupt[]>([]);
export const openCount = computed(() => questions.value?.length ?? 0);

/** What this page sent in answer to a question, until the question is gone. */
export interface Sending {
  state: "sending" | "refused" | "done";
  decision: string;
  error: string;
}
export const sendings = signal<ReadonlyMap<string, Sending>>(new Map());

/** Words about a question that is gone by now: who answered before this page did. */
export const notice = signal("");

export const refreshQuestions = throttled(async () => {
  try {
    const found: Interrupt[] = [];
    let cursor: string | null = null;
    do {
      const page: Page<Interrupt> = await get(url("/api/interrupts", { limit: 200, cursor }));
      found.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor !== null);
    questions.value = found.reverse();
    questionsError.value = null;
  } catch (error) {
    if (error instanceof ApiError) questionsError.value = error;
  }
});

export async function readAnswered(): Promise<void> {
  answered.value = (await get<Page<Interrupt>>(url("/api/interrupts", { status: "answered", limit: 20 }))).items;
}

export type Answer =
  | { decision: "approve"; arguments?: unknown }
  | { decision: "deny"; reason?: string }
  | { decision: "always"; rules?: unknown };

const keys = new Map<string, string>();

/** Answer a question. The same answer repeats under the same key, so that a cut while it is sent does no harm. */
export async function answer(question: Interrupt, response: Answer | string | unknown): Promise<boolean> {
  const decision = typeof response === "object" && response !== null && "decision" in response ? response.decision : "";
  const intent = `${question.id} ${JSON.stringify(response)}`;
  const key = keys.get(intent) ?? newKey();
  keys.set(intent, key);
  note(question.id, { state: "sending", decision: String(decision), error: "" });
  const body = {
    response,
    interrupt_id: question.id,
    ...(question.digest === null ? {} : { digest: question.digest }),
  };
  try {
    await post(`/api/runs/${question.run_id}/respond`, body, key);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const words = error.code === "ALREADY_ANSWERED" ? await whoWasFaster(question.id) : error.message;
    note(question.id, { state: "refused", decision: String(decision), error: words });
    if (error.code === "ALREADY_ANSWERED") {
      notice.value = words;
      refreshQuestions();
    }
    return false;
  }
  note(question.id, { state: "done", decision: String(decision), error: "" });
  refreshQuestions();
  return true;
}

function note(id: string, sending: Sending): void {
  sendings.value = new Map(sendings.value).set(id, sending);
}

/** Name who answered first, and what. */
async function whoWasFaster(id: string): Promise<string> {
  await readAnswered().catch(() => {});
  const found = answered.value.find((each) => each.id === id);
  if (!found) return "this question is closed already";
  return `${found.answered_by ?? "somebody at this server"} was faster: ${describe(found.response)}`;
}

/** A response in a few words. */
export function describe(response: unknown): string {
  if (typeof response === "string") return `“${response}”`;
  if (typeof response === "object" && response !== null && "decision" in response) {
    const { decision, reason, arguments: changed } = response as Record<string, unknown>;
    if (decision === "deny") return typeof reason === "string" && reason ? `denied, “${reason}”` : "denied";
    if (decision === "always") return "approved, and always from now on";
    return changed === undefined ? "approved" : "approved with changes";
  }
  return JSON.stringify(response);
}
