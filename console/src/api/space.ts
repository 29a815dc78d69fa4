/** The space of this page. It is part of the address, so another space is another page. */
const named = typeof location === "undefined" ? null : /^\/console\/s\/([^/]+)/.exec(location.pathname);

export const SPACE: string | null = named?.[1] ? decodeURIComponent(named[1]) : null;
export const BASE = SPACE === null ? "/console" : `/console/s/${encodeURIComponent(SPACE)}`;

const OF_A_SPACE =
  /^\/api\/(agents|artifacts|budget|files|grants|interrupts|memories|notifications|queue|reminders|runs|schedules|search|skills|tasks|threads|usage|webhooks|workers)(?=[/?]|$)/;

/** The address of a route for the space of this page. */
export function inSpace(path: string): string {
  if (SPACE === null || !OF_A_SPACE.test(path)) return path;
  return `/api/spaces/${encodeURIComponent(SPACE)}${path.slice(4)}`;
}
