/** Look for a text in everything: titles, messages, memories, agents, and ids as they are. */
import { get, url } from "../api/client";
import { BASE } from "../api/space";
import type { AgentPage, ListedThread, Page, SearchHit, ThreadResults } from "../api/types";

export interface Hit {
  kind: "thread" | "message" | "memory" | "agent" | "run";
  key: string;
  title: string;
  href: string;
  at: string | null;
  excerpt?: SearchHit["excerpt"];
}

const PLACES: [RegExp, Hit["kind"], (id: string) => string][] = [
  [/^(run|task)_\w+$/, "run", (id) => `${BASE}/r/${id.replace(/^task_/, "run_")}`],
  [/^thr_\w+$/, "thread", (id) => `${BASE}/t/${id}`],
  [/^mem_\w+$/, "memory", (id) => `${BASE}/memory/${id}`],
];

/** The thing that an id names: it is opened as it is. */
export function byId(text: string): Hit[] {
  return PLACES.filter(([shape]) => shape.test(text)).map(([, kind, href]) => ({
    kind,
    key: text,
    title: text,
    href: href(text),
    at: null,
  }));
}

export async function byTitle(q: string, limit = 8): Promise<Hit[]> {
  const page = await get<Page<ListedThread>>(url("/api/threads", { title: q, limit }));
  return page.items.map((thread) => ({
    kind: "thread",
    key: `title ${thread.id}`,
    title: thread.title ?? thread.id,
    href: `${BASE}/t/${thread.id}`,
    at: thread.last_run_at,
  }));
}

export async function everywhere(q: string): Promise<Hit[]> {
  const [titles, said, kept, agents] = await Promise.all([
    byTitle(q),
    get<ThreadResults>(url("/api/threads/search", { q, type: "keyword", limit: 20 })),
    get<{ results: SearchHit[] }>(url("/api/memories/search", { q, target: "abstract", limit: 10 })),
    get<AgentPage>("/api/agents?limit=200"),
  ]);
  const word = q.toLowerCase();
  const named = agents.items.filter((agent) => `${agent.name} ${agent.description}`.toLowerCase().includes(word));
  return [
    ...byId(q),
    ...titles,
    ...named.map(
      (agent): Hit => ({
        kind: "agent",
        key: `agent ${agent.name}`,
        title: agent.name,
        href: `${BASE}/agents/${encodeURIComponent(agent.name)}`,
        at: null,
      }),
    ),
    ...said.results.flatMap(({ thread, messages }) =>
      messages.map(
        (hit): Hit => ({
          kind: "message",
          key: `message ${hit.id}`,
          title: thread.title ?? thread.id,
          href: url(`${BASE}/t/${hit.thread_id}${hit.run_id ? `/${hit.run_id}` : ""}`, { at: hit.sequence }),
          at: hit.at,
          excerpt: hit.excerpt,
        }),
      ),
    ),
    ...kept.results.map(
      (hit): Hit => ({
        kind: "memory",
        key: `memory ${hit.id}`,
        title: hit.memory?.title ?? "Memory",
        href: `${BASE}/memory/${hit.id}`,
        at: hit.at,
        excerpt: hit.excerpt,
      }),
    ),
  ];
}
