/** What holds for the whole tab: who the person is, the socket, the feed, and the badge in the title. */
import { effect, signal } from "@preact/signals";
import { get, keyNeeded, request } from "../api/client";
import type { Me } from "../api/types";
import { openCount, questions, refreshQuestions } from "../live/questions";
import { hints } from "../live/resource";
import { connection, holdWatch, live, watching } from "../live/socket";
import { recent } from "../live/threads";
import { title } from "../parts/screen";

export const me = signal<Me | null>(null);

export async function signIn(key: string): Promise<void> {
  me.value = await request<Me>("POST", "/api/session", { headers: { Authorization: `Bearer ${key}` } });
  keyNeeded.value = false;
  begin();
}

export async function signOut(): Promise<void> {
  await request("DELETE", "/api/session");
  location.reload();
}

let begun = false;

/** Ask who this is, then connect: without a key where none is needed. */
export async function start(): Promise<void> {
  try {
    me.value = await get<Me>("/api/me");
  } catch {
    if (keyNeeded.value) return;
  }
  begin();
}

function begin(): void {
  refreshQuestions();
  recent.refresh();
  if (begun) {
    live.connectNow();
    return;
  }
  begun = true;
  live.onRefused = () =>
    void get<Me>("/api/me")
      .then((found) => (me.value = found))
      .catch(() => {});
  live.subscribe({
    target: { channel: "feed" },
    position: () => null,
    // A change before this moment is in the lists, a later one is a hint.
    onSubscribed: () => {
      recent.refresh();
      refreshQuestions();
    },
    onEvent: (frame) => {
      const hint = frame.data as { status?: string };
      hints.value += 1;
      recent.refresh();
      if (hint.status !== "running" && hint.status !== "pending") refreshQuestions();
    },
  });
  live.start();
  holdWatch();
}

effect(() => {
  const badge = openCount.value > 0 ? `(${openCount.value}) ` : "";
  document.title = `${badge}${title.value ? `${title.value} · ` : ""}Holdfast`;
});

let known: Set<string> | null = null;

/** A notice of the system for a new question, if this tab is the one that watches and nobody looks at it. */
effect(() => {
  const open = questions.value;
  if (open === null || connection.value.state !== "live") return;
  const fresh = known === null ? [] : open.filter((each) => !known?.has(each.id));
  known = new Set(open.map((each) => each.id));
  if (!document.hidden || !watching.value || !("Notification" in window) || Notification.permission !== "granted")
    return;
  for (const each of fresh) new Notification("Holdfast", { body: notice(each.metadata.tool), tag: each.id });
});

/** The tool only, never its arguments: the screen of a phone is read by others. */
function notice(tool: unknown): string {
  return typeof tool === "string" ? `An agent asks to use ${tool}.` : "An agent has a question.";
}
