"""`Runs.end`: the stream of each ended run is valid, complete and closed once."""

from collections.abc import Sequence
from typing import Final

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.events import (
    Event,
    ReasoningMessageContent,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    StateSnapshot,
    StepStarted,
    SubagentStarted,
    TextMessageContent,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.messages import AgUiInterrupt, CancelledOutcome, InterruptOutcome
from holdfast.domain.ids import InterruptId, MessageId, RunId, ToolCallId
from holdfast.domain.run import RunError as WhyItFailed
from holdfast.domain.run import RunStatus
from holdfast.domain.stream import StreamNormaliser
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import IllegalStream, verify_stream
from tests.builders import SECOND, assistant, call, claim, result, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    QUEUED,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    new_interrupt,
    queued,
    run_after,
    running,
    stream,
)

TEXT: Final[list[Event]] = [
    TextMessageStart(message_id=MessageId("m1"), role="assistant"),
    TextMessageContent(message_id=MessageId("m1"), delta="half a sen"),
]
THOUGHT: Final[list[Event]] = [
    ReasoningStart(message_id=MessageId("r1")),
    ReasoningMessageStart(message_id=MessageId("r1m")),
    ReasoningMessageContent(message_id=MessageId("r1m"), delta="hm"),
]
CALL: Final[list[Event]] = [
    ToolCallStart(tool_call_id=ToolCallId("c1"), tool_call_name="look", parent_message_id=MessageId("m1")),
    ToolCallArgs(tool_call_id=ToolCallId("c1"), delta='{"pa'),
]
STEPS: Final[list[Event]] = [StepStarted(step_name="plan"), StepStarted(step_name="act")]
SUBAGENT: Final[list[Event]] = [
    SubagentStarted(subagent_run_id=RunId("sub"), name="helper"),
    TextMessageStart(message_id=MessageId("m2"), role="assistant", subagent_run_id=RunId("sub")),
    StepStarted(step_name="plan", subagent_run_id=RunId("sub")),
]
OPEN: Final[dict[str, Sequence[Event]]] = {
    "nothing": [],
    "a whole message": text_events("done"),
    "half a text": TEXT,
    "half a thought": THOUGHT,
    "half a call": [*TEXT, *CALL],
    "steps": STEPS,
    "a sub-agent": SUBAGENT,
    "a state": [StateSnapshot(snapshot={"a": 1})],
    "everything": [*STEPS, *THOUGHT, *TEXT, *CALL, *SUBAGENT],
}


async def log(store: Store, clock: HeldClock, lease: Lease, *said: Event) -> None:
    """Commit the stream events that the run's stream produces for these events."""
    legal = StreamNormaliser.resume(lease.thread_id, lease.run_id, await stream(store, lease.run_id))
    await commit(store, lease, events=[event for each in said for event in legal.feed(each, at=clock.now())])


async def check_closed(store: Store, run: RunId, *, segments: int = 1) -> RunFinished | RunErrorEvent:
    """Return the last events of a run's stream, after checking that it is valid and has that many segments."""
    events = await stream(store, run)
    verify_stream(events)
    assert sum(isinstance(event, RunStarted) for event in events) == segments
    assert sum(isinstance(event, RunFinished | RunErrorEvent) for event in events) == segments
    logged = await store.events.after(SPACE, run)
    assert [event.seq for event in logged] == list(range(1, len(logged) + 1))
    assert (await store.runs.get(SPACE, run)).last_event_seq == len(logged)
    last = events[-1]
    assert isinstance(last, RunFinished | RunErrorEvent)
    return last


@pytest.mark.parametrize("what", OPEN)
async def test_every_open_part_of_a_running_run_is_closed(store: Store, clock: HeldClock, what: str) -> None:
    lease = await running(store)
    await log(store, clock, lease, *OPEN[what])
    with pytest.raises(IllegalStream):
        verify_stream(await stream(store, lease.run_id))
    await store.runs.end(SPACE, lease.run_id)
    last = await check_closed(store, lease.run_id)
    assert isinstance(last, RunFinished)
    assert last.outcome == CancelledOutcome()


async def test_a_run_that_never_ran_is_closed(store: Store) -> None:
    base = await running(store)
    pending = await run_after(store, base.run)
    waits = await queued(store)
    for run in (pending, waits):
        await store.runs.end(SPACE, run.id)
        assert isinstance(await check_closed(store, run.id), RunFinished)


async def test_a_run_that_went_back_to_the_queue_is_closed(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await log(store, clock, lease, *OPEN["everything"])
    await commit(store, lease, move=QUEUED)
    await store.runs.end(SPACE, lease.run_id)
    await check_closed(store, lease.run_id)


async def test_a_waiting_run_is_closed_in_a_segment_of_its_own(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    question = AgUiInterrupt(id=InterruptId("question"), reason="approval")
    legal = StreamNormaliser.resume(lease.thread_id, lease.run_id, await stream(store, lease.run_id))
    events = [event for each in TEXT for event in legal.feed(each, at=clock.now())]
    interrupted = RunFinished(
        thread_id=lease.thread_id, run_id=lease.run_id, outcome=InterruptOutcome(interrupts=[question])
    )
    events += legal.end(interrupted, at=clock.now())
    await commit(store, lease, events=events, interrupts=[new_interrupt("question")], move=WAITING_FOR_PERSON)
    await store.runs.end(SPACE, lease.run_id)
    last = await check_closed(store, lease.run_id, segments=2)
    assert isinstance(last, RunFinished)
    assert last.outcome == CancelledOutcome()


async def test_a_failed_run_ends_with_its_error(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await log(store, clock, lease, *OPEN["everything"])
    error = WhyItFailed(code="DEADLINE_EXCEEDED", message="too late")
    await store.runs.end(SPACE, lease.run_id, to=RunStatus.FAILED, error=error)
    last = await check_closed(store, lease.run_id)
    assert isinstance(last, RunErrorEvent)
    assert (last.code, last.message) == ("DEADLINE_EXCEEDED", "too late")


async def test_a_failed_run_without_an_error_ends_with_its_reason(store: Store) -> None:
    run = await queued(store)
    await store.runs.end(SPACE, run.id, to=RunStatus.FAILED, reason="no more time")
    last = await check_closed(store, run.id)
    assert isinstance(last, RunErrorEvent)
    assert last.message == "no more time"


async def test_open_calls_get_their_results_in_the_stream(store: Store, clock: HeldClock) -> None:
    lease = await running(store, "begin")
    second = ToolCallStart(tool_call_id=ToolCallId("c2"), tool_call_name="look", parent_message_id=MessageId("m1"))
    await log(store, clock, lease, *TEXT, *CALL, ToolCallEnd(tool_call_id=ToolCallId("c1")), second)
    await commit(store, lease, messages=[assistant("half a sen", call("c1"), call("c2"), id="m1")])
    done = ToolCallResult(message_id=MessageId("t1"), tool_call_id=ToolCallId("c1"), content="seen")
    await log(store, clock, lease, done)
    await commit(store, lease, messages=[result("c1")])
    await store.runs.end(SPACE, lease.run_id)
    await check_closed(store, lease.run_id)
    answer = (await store.messages.of_run(SPACE, lease.run_id))[-1]
    results = [event for event in await stream(store, lease.run_id) if isinstance(event, ToolCallResult)]
    assert [event.tool_call_id for event in results] == ["c1", "c2"]
    assert (results[-1].message_id, results[-1].content) == (answer.id, answer.content)


async def test_the_stream_of_every_run_of_a_tree_is_closed(store: Store, clock: HeldClock) -> None:
    root = await running(store)
    leases = [root]
    for parent in (root, root, None):
        child = await child_of(store, (parent or leases[-1]).run_id)
        leases.append(await claim(store, SECOND))
        assert leases[-1].run_id == child.id
    for lease, what in zip(leases, ("everything", "half a text", "half a call", "steps"), strict=True):
        await log(store, clock, lease, *OPEN[what])
    ended = await store.runs.end(SPACE, root.run_id)
    assert [run.id for run in ended] == [lease.run_id for lease in leases]
    for run in ended:
        await check_closed(store, run.id)


async def test_closing_events_have_the_time_of_the_end(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await log(store, clock, lease, *TEXT)
    before = len(await stream(store, lease.run_id))
    await store.runs.end(SPACE, lease.run_id)
    assert {event.timestamp for event in (await stream(store, lease.run_id))[before:]} == {clock.now()}


async def test_a_refused_end_adds_nothing_to_the_stream(store: Store) -> None:
    run = await queued(store)
    await store.runs.end(SPACE, run.id)
    events = await stream(store, run.id)
    with pytest.raises(Exception, match="is cancelled already"):
        await store.runs.end(SPACE, run.id)
    assert await stream(store, run.id) == events
