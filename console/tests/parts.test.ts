import { expect, test } from "vitest";
import type { Message, RecordedStep, Run, RunContext, Step } from "../src/api/types";
import { chainOf, forkPoints, tipOf, tipsOf, treeOf } from "../src/log/branches";
import { lineDiff, partsOf } from "../src/log/context_diff";
import { rowOfStep, rowsOf } from "../src/log/rows";
import { spansOf, timesOf } from "../src/log/ruler";
import { newLog } from "../src/log/run_log";
import { lanesOf } from "../src/log/waterfall";
import { safeAddress } from "../src/parts/address";
import { splitBlocks } from "../src/parts/blocks";
import { ago, duration, money } from "../src/parts/format";
import { piecesOf } from "../src/parts/highlight";
import { runInput } from "../src/parts/run_input";

const run = (id: string, base: string | null = null, at: number | null = null): Run =>
  ({
    id,
    base_run_id: base,
    base_sequence: at,
    created_at: id,
    status: "completed",
    agent_type: "bot",
  }) as unknown as Run;
// The ids sort by creation: 3 and 4 continue 2, 5 forks from the message 7 of 1, 6 continues 5.
const RUNS = [run("1"), run("2", "1"), run("3", "2"), run("5", "1", 7), run("6", "5")];

test("a chain leads from the root to its tip, and a branch keeps to itself", () => {
  expect(chainOf(RUNS, "3").map((each) => each.id)).toEqual(["1", "2", "3"]);
  expect(chainOf(RUNS, "6").map((each) => each.id)).toEqual(["1", "5", "6"]);
  expect([tipOf(RUNS, null), tipOf(RUNS, "1"), tipOf(RUNS, "5"), tipOf([], null)]).toEqual(["6", "3", "6", null]);
});

test("fork points are counted besides the branch that is shown", () => {
  expect([...forkPoints(RUNS, chainOf(RUNS, "3"))]).toEqual([[7, 1]]);
  expect([...forkPoints(RUNS, chainOf(RUNS, "6"))]).toEqual([]);
});

test("the tree draws what continues as a line, and forks below their base", () => {
  const [first, second, third] = treeOf(RUNS);
  expect([first?.run.id, second?.run.id, third?.run.id]).toEqual(["1", "2", "3"]);
  expect(first?.forks.map((each) => each.run.id)).toEqual(["5", "6"]);
});

const message = (id: string, role: string, sequence: number, more: object = {}): Message =>
  ({
    id,
    run_id: "1",
    role,
    sequence,
    content: id,
    tool_calls: [],
    tool_call_id: null,
    metadata: {},
    created_at: "",
    ...more,
  }) as unknown as Message;

test("rows are history, and between it what only the log has", () => {
  const log = newLog("1");
  const live = (id: string, more: object = {}) => ({
    id,
    role: "assistant",
    text: id,
    reasoning: "",
    done: true,
    abandoned: false,
    at: 0,
    calls: [],
    ...more,
  });
  log.messages = [live("void", { abandoned: true }), live("b"), live("grows", { done: false })];
  const history = [message("a", "user", 0), message("b", "assistant", 1), message("c", "user", 2)];
  const rows = rowsOf({ runs: [run("1")], messages: history, logs: new Map([["1", log]]), forks: new Map([[1, 2]]) });
  expect(rows.map((row) => ("id" in row ? row.id : row.kind))).toEqual(["void", "a", "b", "c", "grows"]);
  expect(rows.find((row) => row.kind === "agent" && row.id === "b")).toMatchObject({
    sequence: 1,
    forks: 2,
    live: null,
  });
});

test("a tool call has its result, and an unknown outcome is one", () => {
  const calls = [
    { id: "x", name: "bash", arguments: { command: "ls" } },
    { id: "y", name: "bash", arguments: {} },
  ];
  const history = [
    message("a", "assistant", 1, { tool_calls: calls }),
    message("r", "tool", 2, { tool_call_id: "x" }),
    message("s", "tool", 3, { tool_call_id: "y", metadata: { failed: "unknown" } }),
  ];
  const [row] = rowsOf({ runs: [run("1")], messages: history, logs: new Map(), forks: new Map() });
  expect(row).toMatchObject({ kind: "agent", end: 3 });
  expect(row?.kind === "agent" && row.calls.map((each) => [each.state, each.result])).toEqual([
    ["done", "r"],
    ["unknown", "s"],
  ]);
});

const step = (number: number, from: number, to: number | null, more: object = {}): Step =>
  ({
    number,
    kind: "tool",
    name: "bash",
    started_at: new Date(from).toISOString(),
    settled_at: to === null ? null : new Date(to).toISOString(),
    ...more,
  }) as unknown as Step;

test("the ruler folds what took long and did nothing, and counts work and waiting apart", () => {
  const spans = spansOf([step(1, 0, 1000, { kind: "model" }), step(2, 7_201_000, 7_202_000)], [], 8_000_000, 7_300_000);
  expect(spans.map((span) => span.kind)).toEqual(["model", "fold", "tool", "fold", "wait"]);
  expect(timesOf(spans)).toEqual({ work: 2000, wait: 7_200_000 + 700_000 });
});

test("blocks that are complete never change while a text grows", () => {
  const text = "one\n\ntwo\n\n```sh\na\n\nb\n```\n\n- x\n\n  y\n- z\n\nend";
  let done = { text: "", blocks: [] as string[] };
  for (let at = 1; at <= text.length; at++) {
    const before = done.blocks.slice(0, -1);
    done = splitBlocks(text.slice(0, at), done);
    expect(done.blocks.join("")).toBe(text.slice(0, at));
    expect(done.blocks.slice(0, before.length)).toEqual(before);
  }
  expect(done).toEqual(splitBlocks(text, { text: "", blocks: [] }));
  expect(done.blocks).toHaveLength(5);
  expect(splitBlocks("other", done).blocks).toEqual(["other"]);
});

test("only addresses of the web and of mail are links", () => {
  const refused = [
    "javascript:alert(1)",
    " JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "//x",
    "x",
    "blob:x",
    "java\nscript:alert(1)",
  ];
  expect(refused.filter((each) => safeAddress(each) !== null)).toEqual([]);
  expect(["https://a.example/?q=1", "http://a.example/", "mailto:a@b.example"].map(safeAddress)).not.toContain(null);
});

test("times and costs read well", () => {
  expect([31, 4100, 59_000, 192_000, 7_440_000].map(duration)).toEqual([
    "31 ms",
    "4.1 s",
    "59 s",
    "3 m 12 s",
    "2 h 4 m",
  ]);
  expect([0.42, 0.004, 0, null].map(money)).toEqual(["$0.42", "<$0.01", "$0.00", "unpriced"]);
  expect([ago(0, 4000), ago(0, 90_000), ago(0, 90_000_000)]).toEqual(["now", "1 min ago", "yesterday"]);
});

const recorded = (run_id: string, number: number, from: number, to: number | null, child?: string): RecordedStep =>
  ({
    run_id,
    number,
    kind: "tool",
    name: "bash",
    state: to === null ? "started" : "done",
    started_at: new Date(from).toISOString(),
    settled_at: to === null ? null : new Date(to).toISOString(),
    child_run_id: child ?? null,
  }) as unknown as RecordedStep;

test("the steps of a child follow the step that started it, and silence is folded", () => {
  const HOUR = 3_600_000;
  const steps = [
    recorded("root", 1, 0, 1000),
    recorded("root", 2, 1000, 3000, "child"),
    recorded("root", 3, HOUR, null),
    recorded("child", 1, 1500, 2500),
  ];
  const lanes = lanesOf(steps, "root", HOUR + 1000);
  expect(lanes.map((lane) => `${lane.key} ${lane.depth} ${lane.kind}`)).toEqual([
    "root 1 0 tool",
    "root 2 0 child",
    "child 1 1 tool",
    "root 3 0 tool",
  ]);
  expect(lanes.every((lane) => lane.at >= 0 && lane.long > 0 && lane.at + lane.long <= 1.0001)).toBe(true);
  expect(lanes[0]?.long).toBeCloseTo(lanes[3]?.long ?? 0); // an hour of silence takes no place of a second of work
  expect(lanes[3]?.open).toBe(true);
});

test("the branches of a thread end in runs that no run continues", () => {
  expect(tipsOf(RUNS).map((each) => each.id)).toEqual(["3", "6"]);
});

test("a diff keeps the lines that two texts share", () => {
  expect(lineDiff("a\nb\nc\nd", "a\nx\nc\ny\nd")).toBe(" a\n-b\n+x\n c\n+y\n d");
  expect(lineDiff("same", "same")).toBe(" same");
});

test("the parts of a context are new, changed, gone or as before", () => {
  const context = (segments: [string, string][]): NonNullable<RunContext["context"]> =>
    ({ segments: segments.map(([name, text]) => ({ name, text, tokens: 1 })) }) as never;
  const before = context([
    ["core", "a"],
    ["plan", "one"],
    ["memory", "m"],
  ]);
  const after = context([
    ["core", "a"],
    ["plan", "two"],
    ["skills", "s"],
  ]);
  expect(partsOf(after, before).map(({ name, change }) => `${name} ${change}`)).toEqual([
    "core same",
    "plan changed",
    "skills new",
    "memory gone",
  ]);
});

const pieces = (text: string, language: string): string[] =>
  piecesOf(text, language).map(({ kind, from, to }) => `${kind} ${text.slice(from, to)}`);

test("code is read by its language", () => {
  expect(pieces('def f(x):  # why\n    return "a\\"b" + 0x1F', "py")).toEqual([
    "word def",
    "comment # why",
    "word return",
    'string "a\\"b"',
    "number 0x1F",
  ]);
  expect(pieces("const a = `x\n{1}`; // no\n/* yes", "ts")).toEqual([
    "word const",
    "string `x\n{1}`",
    "comment // no",
    "comment /* yes",
  ]);
  expect(pieces('{"a": "http://b#c", "d": [1.5e3, null]}', "json")).toEqual([
    'key "a"',
    'string "http://b#c"',
    'key "d"',
    "number 1.5e3",
    "word null",
  ]);
  expect(pieces("SELECT a FROM b -- c", "sql")).toEqual(["word SELECT", "word FROM", "comment -- c"]);
  expect(pieces("git push --force # now $#", "sh")).toEqual(["key --force", "comment # now $#"]);
  expect(pieces('<a href="x">b</a><!-- c', "html")).toEqual([
    "key <a",
    'string "x"',
    "key >",
    "key </a",
    "key >",
    "comment <!-- c",
  ]);
  expect(pieces("a: 1 # b\n- c: true", "yml")).toEqual(["key a", "number 1", "comment # b", "key - c", "word true"]);
  expect(pieces("fn f<'a>(x: &'a str) -> char { 'x' }", "rust")).toEqual(["word fn", "word char", "string 'x'"]);
  expect(pieces("anything", "no such language")).toEqual([]);
});

test("no text makes reading code slow, and pieces never overlap", () => {
  const bits = [
    '"',
    "'",
    "`",
    "/*",
    "<!--",
    '"""',
    "a",
    "a-",
    "a_",
    " ",
    "\n",
    "-",
    "[",
    "1",
    "#",
    "\\",
    "=",
    "a:",
    "<a",
    "--a",
  ];
  for (const language of ["py", "ts", "c", "sh", "sql", "json", "yaml", "toml", "css", "html"])
    for (const bit of bits) {
      const text = bit.repeat(Math.floor(50_000 / bit.length));
      const found = piecesOf(text, language);
      expect(found.every((piece, at) => piece.from >= (found[at - 1]?.to ?? 0) && piece.to <= text.length)).toBe(true);
    }
});

test("the input of a run is its words, or the heartbeat or reminder that was due", () => {
  const due_at = "2024-05-01T03:00:00Z";
  expect(runInput("hello")).toBe("hello");
  expect(runInput(null)).toBe("");
  expect(runInput({ a: 1 })).toBe('{"a":1}');
  expect(runInput({ schedule_id: "sch_1", name: "watcher/nightly", due_at })).toMatch(/^nightly, due .*2024/);
  expect(runInput({ schedule_id: "rem_1", name: null, due_at, reminder: "Ask Mia" })).toBe("Ask Mia");
  expect(runInput({ schedule_id: "sch_1", due_at: "soon" })).toContain("{");
});

test("a step leads to the answer that asked for it", () => {
  const steps = [1, 2, 3].map((number) => ({ number, kind: number === 2 ? "tool" : "model", state: "done" })) as Step[];
  const rows = [0, 1].map((modelCall) => ({ kind: "agent", runId: "r", modelCall })) as unknown as Parameters<
    typeof rowOfStep
  >[0];
  expect([1, 2, 3].map((step) => rowOfStep(rows, "r", steps, step))).toEqual([0, 0, 1]);
  expect(rowOfStep(rows, "r", steps, 0)).toBe(2);
  expect(rowOfStep(rows, "other", steps, 1)).toBe(-1);
});
