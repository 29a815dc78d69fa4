/** The screens of the navigation, with their keys. */
import { BASE } from "../api/space";
import type { IconName } from "../parts/icon";

export interface Place {
  path: string;
  icon: IconName;
  label: string;
  /** The letter after `g`. */
  key?: string;
  /** Addresses that belong to it, besides its own. */
  also?: RegExp;
}

export const PLACES: readonly Place[] = [
  { path: "inbox", icon: "inbox", label: "Inbox", key: "i" },
  { path: "threads", icon: "thread", label: "Threads", key: "t", also: /^(t\/|$)/ },
  { path: "runs", icon: "run", label: "Runs", key: "r", also: /^r\// },
  { path: "board", icon: "board", label: "Board", key: "b" },
  { path: "memory", icon: "memory", label: "Memory", key: "m" },
  { path: "schedules", icon: "clock", label: "Schedules", key: "s", also: /^(reminders|daemons)/ },
  { path: "skills", icon: "book", label: "Skills", key: "k" },
  { path: "agents", icon: "agent", label: "Agents", key: "a" },
  { path: "costs", icon: "cost", label: "Costs", key: "c" },
  { path: "workers", icon: "work", label: "Workers", key: "w" },
  { path: "news", icon: "bell", label: "News", key: "n" },
  { path: "settings", icon: "gear", label: "Settings", key: "," },
];

export function isAt(place: Place, path: string): boolean {
  const own = path.slice(BASE.length).replace(/^\//, "");
  return own === place.path || own.startsWith(`${place.path}/`) || (place.also?.test(own) ?? false);
}
