"""Streaming of one model call into the log: when deltas are committed, and every way in which it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.agent.model_stream import ResponseAccumulator, StreamTimings, stream_response
from holdfast.agent.run_writer import RunWriter
from holdfast.domain.errors import LeaseLost, ModelRefused, ModelUnavailable
from holdfast.domain.events import TextMessageContent
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.ports.model import (
    ModelFinished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)
from tests.builders import user
from tests.unit.agent.builders import RUN
from tests.unit.agent.fakes import FakeJournal, FakeModel, new_writer

LIMIT = 10.0
NEVER = 3600.0
FINISHED = ModelFinished(usage=ZERO_USAGE)
REQUEST = ModelRequest(run_id=RUN, system="", messages=[user("go")])


class Call:
    """A model call in progress."""

    def __init__(self, journal: FakeJournal, log: RunWriter, task: asyncio.Task[ModelFinished]) -> None:
        self.journal = journal
        self.log = log
        self.task = task

    def texts_by_commit(self) -> list[list[str]]:
        """Return the deltas of each commit."""
        return [
            [event.delta for event in commit.events if isinstance(event, TextMessageContent)]
            for commit in self.journal.commits
        ]

    async def commits(self, number: int) -> None:
        """Wait until there are so many commits."""
        while len(self.journal.commits) < number:  # noqa: ASYNC110 - the call continues meanwhile
            await asyncio.sleep(0)


@asynccontextmanager
async def calling(fake_model: FakeModel, *, window: float = NEVER, stall: float = NEVER) -> AsyncIterator[Call]:
    """Make a call while the block runs."""
    journal = FakeJournal()
    log = new_writer(journal, commit_interval=lambda: window)
    answer = ResponseAccumulator(log, MessageId("m"), assign_call_id=lambda call_id, index: call_id)
    async with asyncio.timeout(LIMIT):
        making = stream_response(fake_model, REQUEST, answer, log, StreamTimings(idle_timeout_seconds=stall))
        task = asyncio.get_running_loop().create_task(making)
        try:
            yield Call(journal, log, task)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_the_first_delta_is_committed_at_once_and_later_ones_together() -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        fake_model.say(TextDelta("a"))
        await call.commits(1)
        fake_model.say(*(TextDelta(text) for text in "bcde"), FINISHED)
        await call.task
        await call.log.commit()
    assert call.texts_by_commit() == [["a"], ["bcde"]]


async def test_the_first_delta_of_each_message_is_committed_at_once() -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        fake_model.say(ReasoningDelta("hm"))
        await call.commits(1)
        fake_model.say(ReasoningDelta(" so"), TextDelta("a"))
        await call.commits(2)
        fake_model.say(*(TextDelta(text) for text in "bcde"), FINISHED)
        await call.task
        await call.log.commit()
    assert call.texts_by_commit() == [[], ["a"], ["bcde"]]


async def test_messages_and_calls_that_take_turns_need_no_commit_for_each_turn() -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        fake_model.say(TextDelta("a"))
        await call.commits(1)
        for name in ("one", "two"):
            fake_model.say(ToolCallStarted(id=ToolCallId(name), name="look"))
        for _ in range(5):
            for name in ("one", "two"):
                fake_model.say(ToolArgumentsDelta(id=ToolCallId(name), arguments=" "))
            fake_model.say(TextDelta("b"))
        while not fake_model.lines.empty():  # noqa: ASYNC110 - the call continues meanwhile
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(call.journal.commits) == 1
        fake_model.say(FINISHED)
        await call.task


async def test_the_interval_is_chosen_after_each_commit() -> None:
    fake_model = FakeModel()
    async with calling(fake_model, window=0.001) as call:
        for number, text in enumerate("abc", start=1):
            fake_model.say(TextDelta(text))
            await call.commits(number)
        call.log.commit_interval = lambda: NEVER
        fake_model.say(TextDelta("d"))
        await call.commits(4)
        fake_model.say(*(TextDelta(text) for text in "efg"), FINISHED)
        await call.task
        await call.log.commit()
    assert call.texts_by_commit() == [["a"], ["b"], ["c"], ["d"], ["efg"]]


@pytest.mark.parametrize(
    ("runs", "seconds"), [(1, 0.025), (16, 0.025), (32, 0.05), (48, 0.075), (64, 0.1), (1000, 0.1)]
)
def test_the_interval_widens_with_the_runs_under_way(runs: int, seconds: float) -> None:
    assert StreamTimings().commit_interval(runs) == pytest.approx(seconds)


def test_an_interval_above_the_maximum_is_kept() -> None:
    assert StreamTimings(commit_seconds=2).commit_interval(64) == 2


async def test_pending_deltas_are_committed_after_each_interval() -> None:
    fake_model = FakeModel()
    async with calling(fake_model, window=0.001) as call:
        for number, text in enumerate("abc", start=1):
            fake_model.say(TextDelta(text))
            await call.commits(number)
    assert call.texts_by_commit() == [["a"], ["b"], ["c"]]


async def test_deltas_during_a_commit_go_into_the_next_one() -> None:
    fake_model = FakeModel()
    async with calling(fake_model, window=0) as call:
        call.journal.gate.clear()
        fake_model.say(TextDelta("a"))
        await call.journal.started.acquire()
        fake_model.say(*(TextDelta(text) for text in "bcd"))
        while not fake_model.lines.empty():  # noqa: ASYNC110 - the call continues meanwhile
            await asyncio.sleep(0)
        call.journal.gate.set()
        await call.commits(2)
    assert call.texts_by_commit() == [["a"], ["bcd"]]


async def test_a_silent_model_costs_no_commits() -> None:
    fake_model = FakeModel()
    async with calling(fake_model, window=0.001) as call:
        fake_model.say(TextDelta("a"))
        await call.commits(1)
        await asyncio.sleep(0.02)
        assert call.texts_by_commit() == [["a"]]


async def test_an_immediate_response_needs_no_commit_of_its_own() -> None:
    fake_model = FakeModel()
    fake_model.say(TextDelta("a"), TextDelta("b"), FINISHED)
    async with calling(fake_model) as call:
        assert await call.task == FINISHED
    assert call.texts_by_commit() == []
    assert not call.log.draft.empty


@pytest.mark.parametrize("error", [ModelUnavailable("gone"), ModelRefused("no"), LeaseLost("mine")])
async def test_an_error_is_raised_unchanged_and_the_stream_is_closed(error: Exception) -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        fake_model.say(TextDelta("a"), error)
        with pytest.raises(type(error)) as raised:
            await call.task
    assert raised.value is error
    assert fake_model.closed


async def test_a_commit_in_flight_is_awaited_when_the_call_fails() -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        call.journal.gate.clear()
        fake_model.say(TextDelta("a"))
        await call.journal.started.acquire()
        fake_model.say(ModelUnavailable("gone"))
        while not fake_model.closed:  # noqa: ASYNC110 - the call continues meanwhile
            await asyncio.sleep(0)
        assert not call.task.done()
        call.journal.gate.set()
        with pytest.raises(ModelUnavailable):
            await call.task
    assert call.log.last_event_seq == len(call.journal.events)


async def test_a_failed_commit_cancels_the_call() -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        call.journal.refusals = [LeaseLost("somebody else's")]
        fake_model.say(TextDelta("a"))
        with pytest.raises(LeaseLost):
            await call.task
    assert fake_model.closed


async def test_a_stream_without_a_final_delta_is_unavailable() -> None:
    fake_model = FakeModel()
    fake_model.say(TextDelta("a"), None)
    async with calling(fake_model) as call:
        with pytest.raises(ModelUnavailable, match="stopped in the middle"):
            await call.task


async def test_a_model_that_sends_nothing_for_too_long_is_unavailable() -> None:
    fake_model = FakeModel()
    fake_model.say(TextDelta("a"))
    async with calling(fake_model, stall=0.01) as call:
        with pytest.raises(ModelUnavailable, match="sent no output for 0.01 seconds"):
            await call.task
    assert fake_model.closed


async def test_a_model_that_keeps_streaming_never_times_out() -> None:
    fake_model = FakeModel()
    async with calling(fake_model, stall=0.2) as call:
        for _ in range(30):
            fake_model.say(TextDelta("a"))
            await asyncio.sleep(0.01)
        fake_model.say(FINISHED)
        assert await call.task == FINISHED


async def test_a_cancelled_call_closes_the_stream_at_once() -> None:
    fake_model = FakeModel()
    async with calling(fake_model) as call:
        fake_model.say(TextDelta("a"))
        await call.commits(1)
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task
    assert fake_model.closed
