"""A simulated worker: the commits it makes, and their effect on the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from msgspec import structs

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import BudgetExceeded, HoldfastError, IdTaken, InboxNotEmpty, Invalid, WouldDeadlock
from holdfast.domain.events import (
    Event,
    RunErrorEvent,
    RunFinished,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
    decode_event,
    encode_event,
)
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, TimerId, ToolCallId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.interrupt import InterruptKind, InterruptStatus, NewInterrupt
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.stream import StreamNormaliser
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer
from tests.builders import assistant, call, result
from tests.conformance.log_model import DEEPEST, Model, ModelRun, ModelStep, ModelTimer, Said

StepWish: TypeAlias = Literal["none", "start", "start effectful", "settle"]
Mistake: TypeAlias = Literal["a message with an id of the chain", "an item that is not there"]
STEPS: Final[tuple[StepWish, ...]] = get_args(StepWish)
MISTAKES: Final[tuple[Mistake, ...]] = get_args(Mistake)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The parts that a worker tries to commit; parts that are impossible at the time are left out."""

    speaks: bool = False
    calls: int = 0
    answers: int = 0
    streams: bool = False
    step: StepWish = "none"
    values: dict[str, Json] = field(default_factory=dict)
    reads: int = 9
    """Maximum number of inbox items to consume."""
    timer: int | None = None
    """Milliseconds until it is due."""
    questions: int = 0
    spawns: tuple[int | None, ...] = ()
    """The budgets of the children to create."""
    tokens: int = 0
    """Tokens used."""
    targets: tuple[int, ...] = ()
    """Indexes of the runs to wait for, if it waits for runs."""
    to: RunStatus | None = None
    delay: int | None = None
    mistake: Mistake | None = None


@dataclass(kw_only=True)
class Planned:
    """A commit, and its effect on the model if it is accepted."""

    run: ModelRun
    commit: Commit
    said: list[Said]
    events: list[bytes]
    steps: dict[int, ModelStep]
    timers: dict[TimerId, ModelTimer]
    targets: list[ModelRun]
    wait_until: int | None

    @property
    def error(self) -> type[HoldfastError] | None:
        """The expected error: unread items, an invalid part, no budget, or a deadlock."""
        move, messages, consumed = self.commit.move, self.commit.messages, self.commit.consumed
        if move is not None and move.to is not RunStatus.QUEUED and len(consumed) < len(self.run.unread):
            return InboxNotEmpty
        if not self.run.known_ids().isdisjoint(message.id for message in messages):
            return IdTaken
        if not self.run.unread.keys() >= set(consumed):
            return Invalid
        if self._starts_a_model and any(self._is_used_up(budget) for budget in self.run.budgets()):
            return BudgetExceeded
        return WouldDeadlock if any(self.run in target.ahead() for target in self.targets) else None

    @property
    def tokens(self) -> int:
        """Return the usage."""
        return 0 if self.commit.usage is None else self.commit.usage.total_tokens

    @property
    def _starts_a_model(self) -> bool:
        return any(step.state is StepState.STARTED and step.call is None for step in self.steps.values())

    def _is_used_up(self, above: ModelRun) -> bool:
        return above.budget is not None and above.spent + self.tokens >= above.budget

    def apply(self, model: Model) -> None:
        run, commit = self.run, self.commit
        model.touched.add(run)
        run.said += self.said
        run.events += self.events
        run.iterations += commit.iterations
        for above in run.budgets():
            above.spent += self.tokens
        run.written += [(len(run.said), name, value) for name, value in commit.values.items()]
        run.steps |= self.steps
        run.timers |= self.timers
        run.asked |= {asked.id: InterruptStatus.OPEN for asked in commit.interrupts if asked.id is not None}
        for number in commit.consumed:
            del run.unread[number]
        waits = commit.move is not None and commit.move.to is RunStatus.WAITING
        if waits or any(step.state is not StepState.STARTED for step in commit.steps):
            run.attempt = 0
        if commit.move is not None:
            model.give_back(run, commit.move.to, wait_until=self.wait_until)
            run.waits_on = self.targets


def plan(model: Model, run: ModelRun, lease: Lease, turn: Turn, now: Millis) -> Planned:
    """Turn the wanted parts into a valid commit: no tool call stays open when it ends its run."""
    ends = turn.to is not None and turn.to.terminal
    speech = _Speech(model, run, now)
    for answered in run.open_calls()[: None if ends else turn.answers]:
        speech.answer(answered)
    if turn.speaks and not speech.open:
        speech.speak(0 if ends else turn.calls)
    if turn.streams:
        speech.stream_on()
    steps = _steps(run, turn, speech)
    timers = {} if turn.timer is None else {TimerId(model.name("timer")): ModelTimer(now + turn.timer)}
    targets = _targets(model, turn)
    move = _move(turn, targets, now)
    if move is not None and move.to is not RunStatus.QUEUED:
        speech.end(move.to)
    commit = Commit(
        lease=lease,
        events=speech.events,
        messages=_messages(run, turn, speech),
        steps=[_step(number, step) for number, step in steps.items()],
        values=turn.values,
        consumed=_consumed(run, turn),
        interrupts=_questions(model, turn),
        timers=[NewTimer(id=timer, kind="wake", due_at=instant(Millis(at.due_at))) for timer, at in timers.items()],
        children=_children(model, run, turn),
        usage=Usage(input_tokens=turn.tokens, cost_usd=0.0) if turn.tokens else None,
        iterations=int(turn.speaks),
        move=move,
    )
    return Planned(
        run=run,
        commit=commit,
        said=speech.said,
        events=[encode_event(event) for event in speech.events],
        steps=steps,
        timers=timers,
        targets=targets,
        wait_until=None if turn.delay is None or turn.to is not RunStatus.QUEUED else now + turn.delay,
    )


class _Speech:
    """The messages and stream events of a run, as successive workers continue its log."""

    def __init__(self, model: Model, run: ModelRun, now: Millis) -> None:
        self.open = run.open_calls()
        self.messages: list[NewMessage] = []
        self.said: list[Said] = []
        self.events: list[Event] = []
        self._model = model
        self._now = now
        base = None if run.base is None else run.base.id
        self._stream = StreamNormaliser.resume(run.thread.id, run.id, map(decode_event, run.events), base)
        self._finished = RunFinished(thread_id=run.thread.id, run_id=run.id)

    def answer(self, answered: ToolCallId) -> None:
        self.open.remove(answered)
        self._say(Said(f"answer {answered}", answers=answered), result(answered))
        result_id = MessageId(self._model.name("result"))
        self._feed(ToolCallResult(message_id=result_id, tool_call_id=answered, content="seen"))

    def speak(self, calls: int) -> None:
        text = MessageId(self._model.name("says"))
        asked = [ToolCallId(self._model.name("call")) for _ in range(calls)]
        self.open += asked
        self._say(Said(text, calls=tuple(asked)), assistant(text, *map(call, asked)))
        self.events += self._stream.close(at=self._now)
        self._feed(TextMessageStart(message_id=text, role="assistant"))
        self._feed(TextMessageContent(message_id=text, delta=text), TextMessageEnd(message_id=text))
        for each in asked:
            self._feed(ToolCallStart(tool_call_id=each, tool_call_name="look", parent_message_id=text))
            self._feed(ToolCallArgs(tool_call_id=each, delta="{}"), ToolCallEnd(tool_call_id=each))

    def stream_on(self) -> None:
        """Start a message and leave it incomplete."""
        self._feed(TextMessageContent(message_id=MessageId(self._model.name("streamed")), delta="wel"))

    def end(self, to: RunStatus) -> None:
        outcome = RunErrorEvent(message="it broke") if to is RunStatus.FAILED else self._finished
        self.events += self._stream.end(outcome, at=self._now)

    def _say(self, said: Said, message: NewMessage) -> None:
        self.said.append(said)
        self.messages.append(message)

    def _feed(self, *events: Event) -> None:
        for event in events:
            self.events += self._stream.feed(event, at=self._now)


def _messages(run: ModelRun, turn: Turn, speech: _Speech) -> list[NewMessage]:
    used = sorted(run.known_ids())
    if turn.mistake != "a message with an id of the chain" or not used or not speech.messages:
        return speech.messages
    return [structs.replace(speech.messages[0], id=used[0]), *speech.messages[1:]]


def _consumed(run: ModelRun, turn: Turn) -> list[int]:
    read = list(run.unread)[: turn.reads]
    return [*read, run.received + 1] if turn.mistake == "an item that is not there" else read


def _steps(run: ModelRun, turn: Turn, speech: _Speech) -> dict[int, ModelStep]:
    """Start a step, or settle one: as done if its message is in the commit."""
    if turn.step == "none":
        return {}
    if turn.step != "settle":
        asked = next(iter(speech.open), None)
        return {len(run.steps) + 1: ModelStep(StepState.STARTED, turn.step == "start effectful", asked)}
    spoken = any(said.answers is None for said in speech.said)
    answered = {said.answers for said in speech.said if said.answers is not None}
    for number, step in run.steps.items():
        if step.state is StepState.STARTED:
            done = spoken if step.call is None else step.call in answered
            return {number: ModelStep(StepState.DONE if done else StepState.FAILED, step.effectful, step.call)}
    return {}


def _step(number: int, step: ModelStep) -> Step:
    kind = StepKind.MODEL if step.call is None else StepKind.TOOL
    return Step(
        number=number,
        kind=kind,
        name="look",
        key=f"step-{number}",
        state=step.state,
        tool_call_id=step.call,
        effectful=step.effectful,
    )


def _questions(model: Model, turn: Turn) -> Sequence[NewInterrupt]:
    if turn.to is not RunStatus.WAITING:
        return ()
    return [
        NewInterrupt(id=InterruptId(model.name("interrupt")), kind=InterruptKind.INPUT) for _ in range(turn.questions)
    ]


def _children(model: Model, run: ModelRun, turn: Turn) -> list[NewRun]:
    if run.depth >= DEEPEST:
        return []
    return [
        NewRun(
            id=RunId(model.name("run")),
            thread=NewThread(id=ThreadId(model.name("thread"))),
            parent_run_id=run.id,
            limits=Limits(token_budget=budget),
        )
        for budget in turn.spawns
    ]


def _targets(model: Model, turn: Turn) -> list[ModelRun]:
    """Return the runs to wait for: any that still exist."""
    if turn.to is not RunStatus.WAITING or turn.questions:
        return []
    runs = model.existing()
    return [runs[number % len(runs)] for number in turn.targets if runs]


def _move(turn: Turn, targets: Sequence[ModelRun], now: Millis) -> Move | None:
    match turn.to:
        case None:
            return None
        case RunStatus.WAITING:
            waits_on = [target.id for target in targets]
            return Move(to=turn.to, reason=WaitsFor.PERSON if turn.questions else WaitsFor.CHILD, waits_on=waits_on)
        case RunStatus.QUEUED:
            until = None if turn.delay is None else instant(Millis(now + turn.delay))
            return Move(to=turn.to, wait_until=until)
        case _:
            return Move(to=turn.to, output="done")
