"""Builders for runs in the states that tests start from."""

from typing import Any

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.context import ContextSnapshot, SentSegment, text_digest
from holdfast.domain.events import Event, decode_event
from holdfast.domain.ids import InterruptId, RunId, ToolCallId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.message import Role
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Move, Run, RunStatus, WaitsFor
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import claim, user
from tests.conformance.conftest import SPACE

COMPLETED = Move(to=RunStatus.COMPLETED)
FAILED = Move(to=RunStatus.FAILED)
QUEUED = Move(to=RunStatus.QUEUED)
WAITING = Move(to=RunStatus.WAITING, reason=WaitsFor.TIMER)
WAITING_FOR_PERSON = Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON)


async def queued(store: Store, *said: str, **options: Any) -> Run:
    """Create a claimable run on a new thread."""
    return (await store.runs.create(SPACE, _new(NewThread(), said, options))).run


async def child_of(store: Store, parent: RunId, *said: str, **options: Any) -> Run:
    """Create a child run."""
    return (await store.runs.create(SPACE, _new(NewThread(), said, {"parent_run_id": parent, **options}))).run


async def run_after(store: Store, base: Run, *said: str, **options: Any) -> Run:
    """Create a run based on the end of `base`."""
    return (
        await store.runs.create(SPACE, _new(base.thread_id, said, {"base": RunBase(run_id=base.id), **options}))
    ).run


async def running(store: Store, *said: str, **options: Any) -> Lease:
    """Create a run and claim it; no other run is claimable."""
    run = await queued(store, *said, **options)
    lease = await claim(store)
    assert lease.run_id == run.id
    return lease


async def commit(store: Store, lease: Lease, **parts: Any) -> Committed:
    """Commit `parts` under `lease`."""
    return await store.journal.commit(Commit(lease=lease, **parts))


async def waiting_run(store: Store, name: str = "question", **question: Any) -> Run:
    """Create a run that waits for a response to the interrupt `name`."""
    lease = await running(store, "begin")
    await commit(store, lease, interrupts=[new_interrupt(name, **question)], move=WAITING_FOR_PERSON)
    return await get(store, lease.run_id)


async def get(store: Store, run: RunId) -> Run:
    """Return the current run."""
    return await store.runs.get(SPACE, run)


async def status(store: Store, run: RunId) -> RunStatus:
    """Return the run's status."""
    return (await get(store, run)).status


async def stream(store: Store, run: RunId) -> list[Event]:
    """Return the whole log of a run."""
    return [decode_event(event.data) for event in await store.events.after(SPACE, run)]


async def messages_of(store: Store, run: RunId) -> list[tuple[int | None, Role, object]]:
    """Return sequence, role and content of a run's messages."""
    return [(message.sequence, message.role, message.content) for message in await store.messages.of_run(SPACE, run)]


def new_interrupt(name: str, **question: Any) -> NewInterrupt:
    """Return a new approval interrupt."""
    return NewInterrupt(**{"kind": InterruptKind.APPROVAL, "id": InterruptId(name), **question})


def model_step(number: int, state: StepState = StepState.STARTED, **options: Any) -> Step:
    """Return a model step."""
    return Step(number=number, kind=StepKind.MODEL, name="model", key=f"step-{number}", state=state, **options)


def tool_step(number: int, call_id: str, state: StepState = StepState.STARTED, **options: Any) -> Step:
    """Return a tool step."""
    tool_call_id = ToolCallId(call_id)
    return Step(
        number=number,
        kind=StepKind.TOOL,
        name="look",
        key=f"step-{number}",
        state=state,
        tool_call_id=tool_call_id,
        **options,
    )


def context_snapshot(step: int, system: str = "be good", **options: Any) -> ContextSnapshot:
    """Return the context of a step: a system prompt and no tools."""
    texts = {text_digest(text): text for text in (system, "[]")}
    nothing: dict[str, Any] = dict.fromkeys(("first_sequence", "last_sequence", "compaction_through"))
    plain = {"model": "m", "conversation": (), "reminders": (), "tokens": {}, "texts": texts, **nothing}
    segments = (SentSegment(name="core", digest=text_digest(system), tokens=1),)
    return ContextSnapshot(step=step, segments=segments, tools=text_digest("[]"), **{**plain, **options})


def seconds_from_now(clock: HeldClock, seconds: float) -> Instant:
    """Return the time that many seconds from now."""
    return instant(Millis(clock.now() + round(seconds * 1000)))


def _new(thread: Any, said: tuple[str, ...], options: dict[str, Any]) -> NewRun:
    return NewRun(thread=thread, messages=[user(text) for text in said], **options)
