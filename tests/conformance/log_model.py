"""The expected log: a model without a database.

Derived facts are computed, not stored: the messages a run sees, its values, and whether it may start. A run is *over*
for the runs based on it when it has ended and its worker has stopped; a run that was ended before it could start is
over when its own base is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.errors import (
    Busy,
    Conflict,
    IdTaken,
    IllegalMove,
    LeaseLost,
    NotFound,
    RunActive,
    Waiting,
)
from holdfast.domain.ids import InterruptId, MessageId, OwnerId, RunId, ThreadId, TimerId, ToolCallId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.limits import backoff_ms
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import RunStatus, check_move
from holdfast.domain.step import StepState
from holdfast.domain.timer import TimerState

DEEPEST: Final = 3


@dataclass(frozen=True)
class Said:
    """A message with a unique name."""

    name: str
    id: MessageId | None = None
    calls: tuple[ToolCallId, ...] = ()
    answers: ToolCallId | None = None


@dataclass(eq=False)
class ModelThread:
    id: ThreadId
    made_for_run: bool = False


@dataclass
class ModelStep:
    state: StepState
    effectful: bool
    call: ToolCallId | None


@dataclass
class ModelTimer:
    due_at: int
    state: TimerState = TimerState.SCHEDULED


@dataclass(eq=False, kw_only=True)
class ModelRun:
    id: RunId
    thread: ModelThread
    base: "ModelRun | None"
    cut: int | None
    """Number of its base's own messages that it sees; null means all."""
    parent: "ModelRun | None"
    given: dict[str, Json]
    said: list[Said]
    wait_until: int | None
    budget: int | None = None
    """Token budget of the run and its descendants."""
    spent: int = 0
    """Tokens used by them."""
    waits_on: "list[ModelRun]" = field(default_factory=list)
    status: RunStatus = RunStatus.PENDING
    begun: bool = False
    lease_number: int = 0
    owner: OwnerId | None = None
    expires_at: int = 0
    attempt: int = 0
    iterations: int = 0
    inherited: "Values | None" = None
    """Values inherited from its base; null while they may still change."""
    written: list[tuple[int, str, Json]] = field(default_factory=list)
    """Number of its own messages at the time, name and value."""
    received: int = 0
    unread: dict[int, tuple[InboxKind, str]] = field(default_factory=dict)
    steps: dict[int, ModelStep] = field(default_factory=dict)
    asked: dict[InterruptId, InterruptStatus] = field(default_factory=dict)
    timers: dict[TimerId, ModelTimer] = field(default_factory=dict)
    events: list[bytes] = field(default_factory=list)
    cut_short: bool = False
    """Whether it was ended from outside, so that the store wrote its last events."""
    deleted: bool = False

    def __repr__(self) -> str:
        return f"<{self.id} {self.status}>"

    @property
    def live(self) -> bool:
        return not self.status.terminal

    @property
    def may_begin(self) -> bool:
        """Whether its base has ended, so that its input has a sequence."""
        return self.base is None or self.base.over

    @property
    def over(self) -> bool:
        return self.status.terminal and self.owner is None and (self.begun or self.may_begin)

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def budgets(self) -> "list[ModelRun]":
        """Return the run and its ancestors that have a budget."""
        above = [] if self.parent is None else self.parent.budgets()
        return above if self.budget is None else [*above, self]

    def ahead(self) -> "set[ModelRun]":
        """Return the run and all runs that must end before it can continue."""
        found, following = {self}, [self]
        while following:
            at = following.pop()
            base = [] if at.begun or at.base is None else [at.base]
            new = {*at.waits_on, *base} - found
            found |= new
            following += new
        return found

    def ready(self, now: int) -> bool:
        return self.status is RunStatus.QUEUED and (self.wait_until is None or self.wait_until <= now)

    def open_calls(self, first: int | None = None) -> list[ToolCallId]:
        """Return the unanswered tool calls of its messages, or of the first ones."""
        said = self.said[:first]
        answered = {message.answers for message in said}
        return [call for message in said for call in message.calls if call not in answered]

    def chain(self, first: int | None = None) -> list[Said]:
        """Return the messages of its chain; of its own messages all, or the first ones."""
        above = [] if self.base is None else self.base.chain(self.cut)
        return above if self.deleted or not self.may_begin else above + self.said[:first]

    def history(self) -> list[Said]:
        """Return the messages of its chain, then waiting input: its own and that of the bases that must start first."""
        if self.base is None or self.may_begin:
            return self.chain()
        above = self.base.chain(self.cut) if self.base.may_begin else self.base.history()
        return above if self.deleted else above + self.said

    def known_ids(self, first: int | None = None) -> set[MessageId]:
        """Return the message ids that are taken on its chain."""
        above: set[MessageId] = set() if self.base is None else self.base.known_ids(self.cut)
        own = () if self.deleted else self.said[:first]
        return above | {message.id for message in own if message.id is not None}

    def values(self) -> dict[str, Json]:
        return {name: value for name, (value, _) in self.held().items()}

    def held(self, first: int | None = None) -> "Values":
        """Return its values with their source; those of a deleted run are the inherited ones."""
        above = self.inherited
        if above is None:
            above = {} if self.base is None else self.base.held(self.cut)
        if self.deleted:
            return {name: (value, source) for name, (value, source) in above.items() if not source.deleted}
        written = {name: value for count, name, value in self.written if first is None or count <= first}
        return above | {name: (value, self) for name, value in (self.given | written).items()}


Values: TypeAlias = dict[str, tuple[Json, ModelRun]]


@dataclass(frozen=True)
class Start:
    """The start of a run, and the runs to end for it."""

    base: ModelRun | None
    cut: int | None = None
    cancel: tuple[ModelRun, ...] = ()


class Model:
    """Every run ever created, oldest first, and the runs that changed."""

    def __init__(self) -> None:
        self.runs: list[ModelRun] = []
        self.threads: list[ModelThread] = []
        self.touched: set[ModelRun] = set()
        self._count = 0

    def name(self, prefix: str) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{prefix}-{self._count}"

    def existing(self) -> list[ModelRun]:
        return [run for run in self.runs if not run.deleted]

    def rows(self) -> list[ModelRun]:
        """Return the existing runs, and the tombstones that others are based on."""
        needed: set[ModelRun] = set()
        for run in reversed(self.runs):
            if (not run.deleted or run in needed) and run.base is not None:
                needed.add(run.base)
        return [run for run in self.runs if not run.deleted or run in needed]

    def open_threads(self) -> list[ModelThread]:
        used = {run.thread for run in self.rows()}
        return [thread for thread in self.threads if thread in used or not thread.made_for_run]

    def tree(self, root: ModelRun) -> list[ModelRun]:
        found = [root]
        for run in self.runs:
            if run.parent in found:
                found.append(run)
        return found

    def settle(self) -> None:
        """Queue the runs that may start now."""
        for run in self.runs:
            if run.inherited is None and run.may_begin:
                run.inherited = {} if run.base is None else run.base.held(run.cut)
            if run.status is RunStatus.PENDING and run.may_begin:
                self._move(run, RunStatus.QUEUED)
                run.begun = True

    def place(self, thread: ModelThread, wish: OnBusy) -> Start:
        """Return the start of a run without an explicit base."""
        newest = self._newest(thread)
        live = self._live_branch(newest)
        if not live:
            return Start(newest)
        match wish:
            case OnBusy.ENQUEUE:
                self._check_waits_for_nobody(live)
                return Start(live[0])
            case OnBusy.REJECT:
                raise Busy("the branch is live")
            case OnBusy.INTERRUPT:
                return Start(live[0], cancel=tuple(reversed(live)))
            case OnBusy.FORK:
                return Start(live[-1].base, live[-1].cut)

    def is_busy(self, thread: ModelThread) -> bool:
        """Return whether a run on `thread` cannot be created in a batch."""
        newest = self._newest(thread)
        return newest is not None and not (newest.over and newest.begun)

    def named_base(self, base: ModelRun, cut: int | None) -> Start:
        if base.deleted:
            raise NotFound("gone")
        self._check_waits_for_nobody(self._live_branch(base))
        return Start(base, cut)

    def _live_branch(self, newest: ModelRun | None) -> list[ModelRun]:
        """Return the live runs of a branch, newest first."""
        live: list[ModelRun] = []
        while newest is not None and not newest.over:
            live += [newest] if newest.live else []
            newest = newest.base
        return live

    def _check_waits_for_nobody(self, branch: list[ModelRun]) -> None:
        if any(InterruptStatus.OPEN in run.asked.values() for run in branch):
            raise Waiting("a person is asked")

    def check_new(self, start: Start, parent: ModelRun | None, ids: Iterable[MessageId | None]) -> None:
        """Raise the error that `create` should raise."""
        if parent is not None and (parent.deleted or not parent.live):
            raise NotFound("gone") if parent.deleted else Conflict("ended")
        if start.base is None:
            return
        if not start.base.known_ids(start.cut).isdisjoint(ids):
            raise IdTaken("said before")

    def not_run(self, start: Start) -> list[Said]:
        """Return the results of the calls that a run's start separates from their results."""
        answered: set[ToolCallId | None] = set()
        for said in reversed([] if start.base is None or start.cut is None else start.base.chain(start.cut)):
            if said.answers is None:
                return [Said(f"answer {call}", answers=call) for call in said.calls if call not in answered]
            answered.add(said.answers)
        return []

    def add(self, run: ModelRun) -> None:
        self.runs.append(run)
        self.touched.add(run)

    def claimed(self, run: ModelRun, owner: OwnerId, *, expires_at: int) -> None:
        self._move(run, RunStatus.RUNNING)
        run.owner, run.expires_at, run.wait_until = owner, expires_at, None
        run.lease_number += 1
        run.attempt += 1

    def put(self, run: ModelRun, kind: InboxKind, what: str) -> int:
        if not run.live:
            raise Conflict("ended")
        run.received += 1
        run.unread[run.received] = (kind, what)
        self.touched.add(run)
        if run.status is RunStatus.WAITING:
            self._move(run, RunStatus.QUEUED)
        return run.received

    def answer(self, run: ModelRun, interrupt: InterruptId) -> None:
        """Close an interrupt: notify its run and all active ancestors."""
        run.asked[interrupt] = InterruptStatus.ANSWERED
        told: ModelRun | None = run
        while told is not None:
            if told.live:
                self.put(told, InboxKind.RESPONSE, interrupt)
            told = told.parent

    def give_back(self, run: ModelRun, to: RunStatus, *, wait_until: int | None = None) -> None:
        """Move a run whose worker stops, and notify its parent and subscribers."""
        self._move(run, to)
        run.owner, run.wait_until = None, wait_until
        run.lease_number += 1
        if to.terminal:
            self._close(run)
            self._tell(run)

    def release(self, run: ModelRun, number: int, *, wait_until: int | None) -> None:
        self.touched.add(run)
        if run.status is RunStatus.RUNNING and run.lease_number == number:
            run.attempt = max(run.attempt - 1, 0)
            self.give_back(run, RunStatus.QUEUED, wait_until=wait_until)
        elif run.status.terminal and run.owner is not None and run.lease_number == number + 1:
            run.owner = None
        else:
            raise LeaseLost("lost")

    def expire(self, now: int, *, cap: int, all_leases: bool = False) -> list[ModelRun]:
        held = [run for run in self.runs if run.owner is not None and (all_leases or run.expires_at <= now)]
        for run in held:
            self.touched.add(run)
            delay = backoff_ms(run.attempt)
            if run.live and run.attempt < cap:
                self.give_back(run, RunStatus.QUEUED, wait_until=now + delay if delay else None)
            elif run.live:
                self.end(run, RunStatus.FAILED)
            run.owner = None
        return held

    def end(self, root: ModelRun, to: RunStatus) -> list[ModelRun]:
        """End a tree and return its active runs."""
        if not root.live:
            raise IllegalMove("ended")
        return self.end_all([root], to)

    def end_all(self, roots: Iterable[ModelRun], to: RunStatus) -> list[ModelRun]:
        trees = {run for root in roots for run in self.tree(root)}
        ended = [run for run in self.runs if run in trees and run.live]
        for run in ended:
            self._move(run, to)
            run.lease_number += 1
            run.wait_until = None
            run.cut_short = True
            run.said += [Said(f"answer {call}", answers=call) for call in run.open_calls()]
            self._hear(run)
            self._close(run)
        for run in ended:
            if run.parent not in ended:
                self._tell(run)
        return ended

    def delete(self, root: ModelRun) -> None:
        if root.deleted:
            raise NotFound("gone")
        tree = [run for run in self.tree(root) if run in self.rows()]
        if any(run.live or run.owner is not None for run in tree):
            raise RunActive("not finished")
        for run in tree:
            run.deleted = True
            self.touched.add(run)
        self.touched |= set(self.existing())
        for run in self.existing():
            came = (run.inherited or {}).items()
            if came:  # what others hold of a deleted run becomes theirs
                run.inherited = {name: (value, run if source.deleted else source) for name, (value, source) in came}

    def _hear(self, run: ModelRun) -> None:
        """Save the unread messages from people with an ended run."""
        heard = [number for number, (kind, _) in run.unread.items() if kind is InboxKind.MESSAGE]
        run.said += [Said(run.unread.pop(number)[1]) for number in heard]

    def _newest(self, thread: ModelThread) -> ModelRun | None:
        return next((run for run in reversed(self.existing()) if run.thread is thread), None)

    def _move(self, run: ModelRun, to: RunStatus) -> None:
        check_move(run.id, run.status, to)
        run.status = to
        run.waits_on = []
        self.touched.add(run)

    def _tell(self, child: ModelRun) -> None:
        if child.parent is not None and child.parent.live:
            self.put(child.parent, InboxKind.CHILD, f"{child.id} {child.status}")

    def _close(self, run: ModelRun) -> None:
        """Close everything that is open."""
        for step in run.steps.values():
            if step.state is StepState.STARTED:
                step.state = StepState.UNKNOWN if step.effectful else StepState.FAILED
        for interrupt, status in run.asked.items():
            if status is InterruptStatus.OPEN:
                run.asked[interrupt] = InterruptStatus.CANCELLED
        for timer in run.timers.values():
            if timer.state is TimerState.SCHEDULED:
                timer.state = TimerState.CANCELLED
