import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { LogEvent } from "../src/log/events";
import { apply, applyFact } from "../src/log/reduce";
import { newLog, type RunLog } from "../src/log/run_log";

interface Logged {
  seq: number;
  data: LogEvent;
}

const LOGS = ["recovery", "answer"].map(
  (name) =>
    [name, JSON.parse(readFileSync(new URL(`logs/${name}.json`, import.meta.url), "utf8")) as Logged[]] as const,
);

const reduced = (events: readonly Logged[], log: RunLog = newLog("run")): RunLog => {
  for (const event of events) apply(log, event.seq, event.data);
  return log;
};

describe.each(LOGS)("the log %s", (_, events) => {
  const whole = reduced(events);

  test("gives the same for every cut, with any overlap", () => {
    for (let cut = 0; cut <= events.length; cut++) {
      const first = JSON.parse(JSON.stringify(reduced(events.slice(0, cut)))) as RunLog;
      expect(reduced(events.slice(Math.max(0, cut - 7)), first)).toEqual(whole);
    }
  });

  test("gives for every prefix what the prefix says, and nothing of what follows", () => {
    for (let cut = 1; cut <= events.length; cut++) {
      const log = reduced(events.slice(0, cut));
      expect(log.seq).toBe(events[cut - 1]?.seq);
      const said = events
        .slice(0, cut)
        .flatMap(({ data }) => (data.type === "TEXT_MESSAGE_CONTENT" ? [data.delta] : []))
        .join("");
      expect(log.messages.map((message) => message.text).join("")).toBe(said);
    }
  });

  test("reports a gap and changes nothing", () => {
    const log = reduced(events.slice(0, 5));
    const before = JSON.stringify(log);
    const later = events[7] as Logged;
    expect(apply(log, later.seq, later.data).kind).toBe("gap");
    expect(JSON.stringify(log)).toBe(before);
  });

  test("gives the same facts without the pieces of its messages", () => {
    const facts = newLog("run");
    for (const { data } of events) if (/^(CUSTOM|RUN_|SUBAGENT_)/.test(data.type)) applyFact(facts, data);
    const { breaks, plan, budget, modelCalls, questions, error } = whole;
    expect(facts).toMatchObject({ plan, budget, modelCalls, questions, error });
    expect(facts.breaks.map(({ lostAt: _, ...each }) => each)).toEqual(breaks.map(({ lostAt: _, ...each }) => each));
  });
});

test("a worker that was lost is one break, with the step at which another went on", () => {
  const log = reduced(LOGS[0]?.[1] ?? []);
  expect(log.breaks).toHaveLength(1);
  const [cut] = log.breaks;
  expect(cut?.kind).toBe("lost");
  expect(cut?.step).toBeGreaterThan(1);
  expect(cut?.resumedAt).toBeGreaterThan(cut?.lostAt ?? 0);
  const [half, ...others] = log.messages.filter((message) => message.abandoned);
  expect(half?.text.startsWith("Both backends")).toBe(true);
  expect(others).toEqual([]);
  expect(log.messages.filter((message) => message.text.startsWith("Both backends"))).toHaveLength(2);
});

test("an event of a type that this version does not know is skipped", () => {
  const log = newLog("run");
  const unknown = { type: "NEW_THING", timestamp: 1 } as unknown as LogEvent;
  const custom = { type: "CUSTOM", name: "holdfast.new", value: {}, timestamp: 1 } as unknown as LogEvent;
  expect([apply(log, 1, unknown).kind, apply(log, 2, custom).kind, log.seq]).toEqual(["none", "none", 2]);
});
