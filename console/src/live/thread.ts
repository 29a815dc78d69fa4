/**
 * One open thread: subscribe, then read history. Runs under way replay from their first event, ended ones come from
 * history, so nothing lies between.
 */
import { batch, computed, type Signal, signal } from "@preact/signals";
import { ApiError, get, url } from "../api/client";
import type { Artifact, DetailedRun, Message, Page, Run, Step, Task, ThreadDetail } from "../api/types";
import { chainOf, tipOf } from "../log/branches";
import type { LogEvent } from "../log/events";
import { apply } from "../log/reduce";
import { newLog, type RunLog } from "../log/run_log";
import { FactReader } from "./facts";
import { CursorList } from "./list";
import { questions, refreshQuestions } from "./questions";
import { type EventFrame, live } from "./socket";
import { StepPages } from "./steps";
import { oncePerPaint, throttled } from "./throttle";
import { shownEvent } from "./totals";

const RUNS = 200;
const MESSAGES = 50;

export class ThreadView {
  readonly thread = signal<ThreadDetail | null>(null);
  readonly error = signal<ApiError | null>(null);
  /** The runs of all branches, newest first: as many as the messages that are shown belong to. */
  readonly runs = computed<Run[]>(() => this.allRuns.items.value ?? []);
  readonly hasMoreRuns = computed(() => this.allRuns.more.value);
  readonly messages = signal<Message[]>([]);
  readonly steps = signal<ReadonlyMap<string, Step[]>>(new Map());
  readonly tasks = signal<Task[] | null>(null);
  readonly artifacts = signal<Artifact[]>([]);
  /** What the newest run has used, with its sub-agents. */
  readonly usage = signal<Run["usage"] | null>(null);
  readonly loaded = signal(false);
  readonly olderCursor = signal<string | null>(null);
  /** Grows with every change of a log that is more than a longer text. */
  readonly version = signal(0);
  readonly logs = new Map<string, RunLog>();
  /** Number of older messages that were put before the others: the list keeps its place by it. */
  readonly prepended = signal(0);
  readonly behind = signal(0);

  private readonly texts = new Map<string, Signal<number>>();
  private readonly queue: EventFrame[] = [];
  private cursor: string | null = null;
  private closed = false;
  private tip: string | null = null;
  private stop: () => void = () => {};
  private tipSteps: StepPages | null = null;
  private readonly allRuns: CursorList<Run>;
  /** What shows a row of a run asks it for the facts of that run. */
  readonly facts: FactReader;
  private readonly shownTip = computed(() => tipOf(this.runs.value, this.start));
  private readonly shownChain = computed(() => chainOf(this.runs.value, this.tipId));

  constructor(
    readonly id: string,
    /** The run of the address: its branch is shown. */
    readonly start: string | null,
  ) {
    this.allRuns = new CursorList<Run>(`/api/threads/${id}/runs`, { limit: RUNS });
    this.facts = new FactReader({
      chain: () => this.chain,
      tip: () => this.tipId,
      hasLog: (run) => this.logs.has(run),
      onRead: (run, log, steps) => {
        if (this.logs.has(run)) return;
        this.logs.set(run, log);
        batch(() => {
          if (steps) this.steps.value = new Map(this.steps.value).set(run, steps);
          this.version.value += 1;
        });
      },
    });
  }

  open(): () => void {
    this.stop = live.subscribe({
      target: { session_id: this.id },
      position: () => this.cursor,
      onSubscribed: (position) => {
        this.cursor ??= String(position);
        void this.read();
      },
      onEvent: (frame) => {
        this.queue.push(frame);
        this.behind.value = this.queue.length > 200 ? this.queue.length : 0;
        this.flushSoon();
      },
      onError: (code, message) => {
        if (code === "BAD_CURSOR") this.reset();
        else this.error.value ??= new ApiError(code, message, code.endsWith("NOT_FOUND") ? 404 : 400);
      },
    });
    return () => {
      this.closed = true;
      this.facts.close();
      shownEvent.value = null;
      this.stop();
    };
  }

  /** The signal of a text that grows: the one component that shows it reads it. */
  text(id: string): Signal<number> {
    let found = this.texts.get(id);
    if (!found) {
      found = signal(0);
      this.texts.set(id, found);
    }
    return found;
  }

  get chain(): Run[] {
    return this.shownChain.value;
  }

  get tipId(): string | null {
    return this.shownTip.value;
  }

  get current(): Run | null {
    return this.runs.value.find((run) => run.id === this.tipId) ?? null;
  }

  /** When the newest run began to wait for a person, if it does. */
  get askedAt(): number | undefined {
    const run = this.current;
    if (run?.status !== "waiting" || run.status_reason !== "person") return undefined;
    const own = questions.value?.filter((each) => each.run_id === run.id || each.root_run_id === run.id) ?? [];
    return own[0] ? Date.parse(own[0].created_at) : undefined;
  }

  async read(): Promise<void> {
    try {
      const [thread] = await Promise.all([get<ThreadDetail>(`/api/threads/${this.id}`), this.allRuns.readNewest()]);
      if (this.start !== null) await this.knowRuns([this.start]);
      if (this.closed) return;
      this.thread.value = thread;
      await this.readMessages();
      batch(() => {
        this.loaded.value = true;
        this.error.value = null;
        this.showEvent();
      });
      await Promise.all([this.readDetails(), this.facts.read()]);
    } catch (error) {
      if (error instanceof ApiError && !this.closed) this.error.value = error;
    }
  }

  readonly refresh = throttled(() => (this.closed ? Promise.resolve() : this.read()), 700);

  /** Read the newest page of the branch; older pages that are shown stay. */
  private async readMessages(): Promise<void> {
    const tip = this.tipId;
    if (tip === null) return;
    const page = await get<Page<Message>>(url(`/api/threads/${this.id}/messages`, { run_id: tip, limit: MESSAGES }));
    await this.knowRuns(page.items.map((message) => message.run_id));
    const first = page.items.find((message) => message.sequence !== null)?.sequence ?? null;
    const last = this.messages.value.at(-1)?.sequence ?? -1;
    const joins = this.tip === tip || this.chain.some((run) => run.id === this.tip);
    const older =
      joins && first !== null && first <= last + 1
        ? this.messages.value.filter((message) => message.sequence !== null && message.sequence < first)
        : [];
    this.tip = tip;
    batch(() => {
      this.messages.value = [...older, ...page.items];
      if (older.length === 0) this.olderCursor.value = page.next_cursor;
    });
  }

  private reading = false;

  async readOlder(): Promise<void> {
    const cursor = this.olderCursor.value;
    if (this.reading || cursor === null || this.tip === null) return;
    this.reading = true;
    try {
      const page = await get<Page<Message>>(
        url(`/api/threads/${this.id}/messages`, { run_id: this.tip, limit: 100, cursor }),
      );
      await this.knowRuns(page.items.map((message) => message.run_id));
      if (this.closed || this.olderCursor.value !== cursor) return;
      batch(() => {
        this.prepended.value += 1;
        this.messages.value = [...page.items, ...this.messages.value];
        this.olderCursor.value = page.next_cursor;
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next turn of the wheel asks again
    } finally {
      this.reading = false;
    }
  }

  readMoreRuns(): Promise<void> {
    return this.allRuns.readMore();
  }

  /** Read runs until all of these are known: a message is shown with its run. */
  private knowRuns(ids: readonly string[]): Promise<void> {
    return this.allRuns.readUntil(() => {
      const known = new Set(this.runs.value.map((run) => run.id));
      return ids.every((id) => known.has(id));
    });
  }

  /** The steps of the newest run with their times and costs, the plan, and the artifacts. */
  private async readDetails(): Promise<void> {
    const run = this.current;
    if (run === null) return;
    const [steps, tasks, artifacts, detailed] = await Promise.all([
      this.readSteps(run.id),
      get<{ items: Task[] }>(url(`/api/threads/${this.id}/tasks`, { run_id: run.id })).catch(() => null),
      get<Page<Artifact>>(url(`/api/threads/${this.id}/artifacts`, { limit: 50 })).catch(() => null),
      get<DetailedRun>(`/api/runs/${run.id}?tree_usage=true`).catch(() => null),
    ]);
    if (this.closed) return;
    batch(() => {
      this.steps.value = new Map(this.steps.value).set(run.id, steps);
      if (tasks) this.tasks.value = tasks.items;
      if (artifacts) this.artifacts.value = artifacts.items;
      this.usage.value = detailed?.tree_usage ?? run.usage;
    });
  }

  private readSteps(run: string): Promise<Step[]> {
    if (this.tipSteps?.run !== run) this.tipSteps = new StepPages(run, false);
    return this.tipSteps.read();
  }

  private readonly flushSoon = oncePerPaint(() => this.flush());

  private flush(): void {
    let [shape, settled] = [false, false];
    const grown = new Set<string>();
    for (const frame of this.queue.splice(0)) {
      const runId = String(frame.task_id).replace(/^task_/, "run_");
      const data = frame.data as unknown as LogEvent;
      const log = this.logOf(frame, runId);
      const change = apply(log, frame.seq, data);
      if (change.kind === "gap") {
        this.reset();
        return;
      }
      if (frame.cursor !== undefined) this.cursor = frame.cursor;
      if (change.kind === "text") grown.add(change.id);
      if (change.kind === "shape") shape = true;
      settled ||= isSettlement(data) || !this.runs.value.some((run) => run.id === log.runId);
    }
    batch(() => {
      this.behind.value = 0;
      this.showEvent();
      for (const id of grown) this.text(id).value += 1;
      if (shape) this.version.value += 1;
    });
    if (settled) this.refresh();
  }

  /** The number of the newest event of the newest run: what the log of the page has, or what the server had. */
  private showEvent(): void {
    const run = this.closed ? null : this.current;
    const log = run && this.logs.get(run.id);
    const live = log && log.seq !== Number.MAX_SAFE_INTEGER ? log.seq : 0;
    shownEvent.value = run ? Math.max(run.last_event_seq, live) : null;
  }

  private logOf(frame: EventFrame, runId: string): RunLog {
    // A client may choose any id for a run: the first event of its log names it.
    const data = frame.data as { type?: string; runId?: string };
    const known = this.logs.get(String(frame.task_id)) ?? this.logs.get(runId);
    if (known) return known;
    const id = this.runs.value.find((run) => run.id === runId || run.id === frame.task_id)?.id ?? data.runId ?? runId;
    const log = newLog(id);
    this.logs.set(id, log);
    if (id !== runId) this.logs.set(runId, log);
    return log;
  }

  /** Begin again: the position is lost, or an event is missing. */
  private reset(): void {
    this.queue.length = 0;
    this.logs.clear();
    this.cursor = null;
    this.stop();
    if (!this.closed) this.open();
  }
}

/** Whether an event changes what only a read can tell: numbers of messages, costs, the status of the run. */
function isSettlement(event: LogEvent): boolean {
  if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR" || event.type === "RUN_STARTED") {
    refreshQuestions();
    return true;
  }
  return event.type === "CUSTOM" && event.name === "holdfast.step" && event.value.state !== "started";
}
