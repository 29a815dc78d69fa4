/** Times, sizes and costs as people read them. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return two(ms, MINUTE, "m", SECOND, "s");
  if (ms < DAY) return two(ms, HOUR, "h", MINUTE, "m");
  return two(ms, DAY, "d", HOUR, "h");
}

function two(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const whole = Math.floor(ms / large);
  const rest = Math.floor((ms % large) / small);
  return rest === 0 ? `${whole} ${largeName}` : `${whole} ${largeName} ${rest} ${smallName}`;
}

export function ago(at: string | number, now: number): string {
  const ms = now - (typeof at === "number" ? at : Date.parse(at));
  if (ms < 5 * SECOND) return "now";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s ago`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ago`;
  if (ms < 2 * DAY) return "yesterday";
  if (ms < 30 * DAY) return `${Math.floor(ms / DAY)} days ago`;
  return new Date(at).toLocaleDateString("en-CA");
}

export function until(at: string, now: number): string {
  const ms = Date.parse(at) - now;
  if (ms <= 0) return "no longer";
  if (ms < HOUR) return `for ${Math.ceil(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `for ${Math.floor(ms / HOUR)} h`;
  return `for ${Math.floor(ms / DAY)} days`;
}

export function clock(at: string | number, seconds = false): string {
  const options: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Date(at).toLocaleTimeString("en-GB", seconds ? { ...options, second: "2-digit" } : options);
}

export function exact(at: string | number): string {
  return new Date(at).toLocaleString("en-CA", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}

export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "unpriced";
  if (usd === 0) return "$0.00";
  return usd < 0.01 ? "<$0.01" : `$${usd.toFixed(2)}`;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
