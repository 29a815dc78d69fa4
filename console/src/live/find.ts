/** Look for a text in everything: the server finds ids, titles, names and words. */
import { get, url } from "../api/client";
import { BASE } from "../api/space";
import type { Found, FoundList } from "../api/types";

export interface Hit {
  kind: Found["kind"];
  key: string;
  title: string;
  href: string;
  at: string | null;
  excerpt: Found["excerpt"];
}

/** What the palette offers while a person types: it is asked often, so it leaves out the words of messages. */
const QUICK = ["run", "thread", "artifact", "memory", "interrupt", "agent"] as const;

export async function byTitle(q: string, limit = 8): Promise<Hit[]> {
  return read(`${url("/api/search", { q, limit })}${QUICK.map((kind) => `&kind=${kind}`).join("")}`);
}

export async function everywhere(q: string): Promise<Hit[]> {
  return read(url("/api/search", { q, limit: 20 }));
}

async function read(path: string): Promise<Hit[]> {
  const { items } = await get<FoundList>(path);
  return items.map((found) => ({
    kind: found.kind,
    key: `${found.kind} ${found.id}`,
    title: found.title,
    href: hrefOf(found),
    at: found.at ?? null,
    excerpt: found.excerpt,
  }));
}

function hrefOf(found: Found): string {
  const thread = `${BASE}/t/${found.thread_id}${found.run_id ? `/${found.run_id}` : ""}`;
  switch (found.kind) {
    case "run":
      return `${BASE}/r/${found.id}`;
    case "memory":
      return `${BASE}/memory/${found.id}`;
    case "agent":
      return `${BASE}/agents/${encodeURIComponent(found.id)}`;
    case "artifact":
      return url(`${BASE}/r/${found.run_id}`, { side: "artifacts" });
    case "message":
      return url(thread, { at: found.sequence });
    default:
      return thread;
  }
}
