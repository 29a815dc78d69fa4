/** How a tool call is shown: an icon, its arguments and its end in a word, and all of it when it is opened. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Call } from "../../../log/run_log";
import { Code, languageOf } from "../../../parts/code";
import { Diff } from "../../../parts/diff";
import { duration, plural } from "../../../parts/format";
import { Icon, type IconName } from "../../../parts/icon";

interface Look {
  icon: IconName;
  args: (args: Record<string, unknown>) => string;
  end: (call: Call) => ComponentChildren;
  body: (call: Call, args: Record<string, unknown>) => ComponentChildren;
}

const text = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
const raw = (call: Call, args: Record<string, unknown>) => (
  <>
    <Text label="Arguments" text={JSON.stringify(args, null, 2)} language="json" />
    {call.result !== null && <Text label="Result" text={pretty(call.result)} language={languageOfResult(call, args)} />}
  </>
);

const OTHER: Look = {
  icon: "tool",
  args: (args) => Object.values(args).map(text).join(" "),
  end: (call) => lines(call),
  body: raw,
};

const bash: Look = {
  icon: "term",
  args: (args) => text(args.command),
  end: (call) => {
    const code = /\[exit code (-?\d+)\]\s*$/.exec(call.result ?? "")?.[1];
    if (code === undefined) return null;
    return code === "0" ? "exit 0" : <span class="fail">exit {code}</span>;
  },
  body: (call, args) => (
    <>
      <Text label="Command" text={`$ ${text(args.command)}`} language="shell" />
      <Text label="Output" text={call.result ?? call.output} />
    </>
  ),
};

const edit: Look = {
  icon: "pen",
  args: (args) => text(args.path),
  end: (call) => {
    const changed = call.file?.diff;
    if (changed === undefined) return lines(call);
    const body = changed.split("\n").slice(2);
    const added = body.filter((line) => line.startsWith("+")).length;
    const gone = body.filter((line) => line.startsWith("-")).length;
    return (
      <>
        <span class="add">+{added}</span> {gone > 0 && <span class="fail">−{gone}</span>}
      </>
    );
  },
  body: (call, args) => (call.file?.diff ? <Diff text={call.file.diff} path={call.file.path} /> : raw(call, args)),
};

const LOOKS: Record<string, Look> = {
  bash,
  edit_file: edit,
  write_file: edit,
  read_file: { ...OTHER, icon: "file", args: (args) => text(args.path) },
  list_dir: { ...OTHER, icon: "file", args: (args) => text(args.path) || "." },
  glob: { ...OTHER, icon: "find", args: (args) => text(args.pattern) },
  grep: { ...OTHER, icon: "find", args: (args) => [args.pattern, args.path].map(text).join(" ") },
  web_fetch: { ...OTHER, icon: "globe", args: (args) => text(args.url) },
  web_search: { ...OTHER, icon: "globe", args: (args) => text(args.query) },
  ask_user: { ...OTHER, icon: "ask", args: (args) => text(args.question), end: (call) => call.result ?? "" },
};

export function CallRow({ call }: { call: Call }) {
  const bad = call.state === "failed" || call.state === "unknown";
  const open = useSignal(bad || (call.file?.diff !== undefined && call.name === "edit_file"));
  const look = LOOKS[call.name] ?? OTHER;
  const args = parsed(call.args);
  return (
    <details open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>
        <Icon name={look.icon} />
        <span class="name">{call.name}</span>
        <span class="args">
          {look.args(args) || (call.state === "asked" && Object.keys(args).length === 0 ? call.args : "")}
        </span>
        <span class="end">{ending(call, look)}</span>
        <span class="took">{took(call)}</span>
      </summary>
      {open.value && (
        <div class="opened">
          {look.body(call, args)}
          <Permission call={call} />
        </div>
      )}
    </details>
  );
}

/** Calls that only change the plan, in one line: the plan is at the side. */
export function PlanRow({ calls }: { calls: Call[] }) {
  const open = useSignal(false);
  return (
    <details open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>
        <Icon name="plan" />
        <span class="name">plan</span>
        <span class="args">{calls.map((call) => call.name.replace("plan_", "")).join(", ")}</span>
        <span class="end">{plural(calls.length, "change")}</span>
        <span class="took" />
      </summary>
      {open.value && (
        <div class="opened">
          {calls.map((call) => (
            <Text key={call.id} label={call.name} text={`${call.name} ${call.args}`} language="json" />
          ))}
        </div>
      )}
    </details>
  );
}

function ending(call: Call, look: Look): ComponentChildren {
  switch (call.state) {
    case "failed":
      return <span class="fail">{call.permission?.decision === "deny" ? "denied" : "failed"}</span>;
    case "unknown":
      return <span class="fail">outcome unknown</span>;
    case "waiting":
      return <span class="wait">waiting</span>;
    case "started":
      return <span class="live">running</span>;
    case "asked":
      if (call.result === null && call.permission?.decision === "ask") return <span class="wait">asks you</span>;
      return call.result === null ? "" : look.end(call);
    case "done":
      return look.end(call);
  }
}

function took(call: Call): string {
  if (call.startedAt === null || call.settledAt === null) return "";
  return duration(call.settledAt - call.startedAt);
}

function Permission({ call }: { call: Call }) {
  const decided = call.permission;
  if (!decided) return null;
  const by = decided.by ? ` by ${decided.by}` : "";
  const rule = decided.rule ? ` (rule ${decided.rule})` : "";
  const word = { allow: "allowed", ask: "asked for", deny: "denied" }[decided.decision];
  return (
    <p class="quiet">
      {word}
      {by}
      {rule}
      {decided.reason ? `: ${decided.reason}` : ""}
    </p>
  );
}

const MAX_SHOWN = 20_000;

export function Text({ text: given, label, language = "" }: { text: string; label: string; language?: string }) {
  const all = useSignal(false);
  const cut = given.length > MAX_SHOWN && !all.value;
  return (
    <>
      <pre tabIndex={0} role="region" aria-label={label}>
        <Code text={cut ? given.slice(0, MAX_SHOWN) : given} language={language} />
      </pre>
      {cut && (
        <button type="button" class="bare" onClick={() => (all.value = true)}>
          Show all of it
        </button>
      )}
    </>
  );
}

function lines(call: Call): string {
  if (call.result === null || call.result === "") return "";
  const found = call.result.split("\n").length;
  if (found > 1) return plural(found, "line");
  return call.result.length > 24 ? "" : call.result;
}

export function parsed(args: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(args);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** A file is in the language of its name; what looks like JSON is JSON. */
function languageOfResult(call: Call, args: Record<string, unknown>): string {
  if (call.name === "read_file") return languageOf(text(args.path));
  return /^[[{]/.test(call.result ?? "") ? "json" : "";
}

function pretty(result: string): string {
  if (!/^[[{]/.test(result)) return result;
  try {
    return JSON.stringify(JSON.parse(result), null, 2);
  } catch {
    return result;
  }
}
