"""One model call, streamed into the log: what is committed when, and every way in which it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.agent.model_stream import CommitInterval, ResponseAccumulator, stream_response
from holdfast.agent.run_writer import RunWriter
from holdfast.domain.errors import LeaseLost, ModelRefused, ModelUnavailable
from holdfast.domain.events import TextMessageContent
from holdfast.domain.ids import MessageId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.ports.model import ModelFinished, ModelRequest, TextDelta
from tests.builders import user
from tests.unit.agent.builders import RUN
from tests.unit.agent.notebook import Notebook, Puppet, a_log

LIMIT = 10.0
NEVER = 3600.0
FINISHED = ModelFinished(usage=ZERO_USAGE)
REQUEST = ModelRequest(run_id=RUN, system="", messages=[user("go")])


class Call:
    """A call on its way."""

    def __init__(self, notebook: Notebook, log: RunWriter, task: asyncio.Task[ModelFinished]) -> None:
        self.notebook = notebook
        self.log = log
        self.task = task

    def said(self) -> list[list[str]]:
        """Return the deltas of each commit."""
        return [
            [event.delta for event in commit.events if isinstance(event, TextMessageContent)]
            for commit in self.notebook.commits
        ]

    async def commits(self, number: int) -> None:
        """Wait until there are so many commits."""
        while len(self.notebook.commits) < number:  # noqa: ASYNC110 - the call goes on meanwhile
            await asyncio.sleep(0)


@asynccontextmanager
async def calling(puppet: Puppet, *, window: float = NEVER, stall: float = NEVER) -> AsyncIterator[Call]:
    """Make a call while the block runs."""
    notebook = Notebook()
    log = a_log(notebook)
    answer = ResponseAccumulator(log, MessageId("m"), assign_call_id=lambda said, index: said)
    async with asyncio.timeout(LIMIT):
        making = stream_response(
            puppet, REQUEST, answer, log, CommitInterval(seconds=window, idle_timeout_seconds=stall)
        )
        task = asyncio.get_running_loop().create_task(making)
        try:
            yield Call(notebook, log, task)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_the_first_delta_is_committed_at_once_and_the_others_gather() -> None:
    puppet = Puppet()
    async with calling(puppet) as call:
        puppet.say(TextDelta("a"))
        await call.commits(1)
        puppet.say(*(TextDelta(text) for text in "bcde"), FINISHED)
        await call.task
        await call.log.commit()
    assert call.said() == [["a"], ["bcde"]]


async def test_after_each_window_what_has_gathered_is_committed() -> None:
    puppet = Puppet()
    async with calling(puppet, window=0.001) as call:
        for number, text in enumerate("abc", start=1):
            puppet.say(TextDelta(text))
            await call.commits(number)
    assert call.said() == [["a"], ["b"], ["c"]]


async def test_what_comes_while_a_commit_is_on_its_way_is_in_the_next() -> None:
    puppet = Puppet()
    async with calling(puppet, window=0) as call:
        call.notebook.gate.clear()
        puppet.say(TextDelta("a"))
        await call.notebook.begun.acquire()
        puppet.say(*(TextDelta(text) for text in "bcd"))
        while not puppet.lines.empty():  # noqa: ASYNC110 - the call goes on meanwhile
            await asyncio.sleep(0)
        call.notebook.gate.set()
        await call.commits(2)
    assert call.said() == [["a"], ["bcd"]]


async def test_a_silent_model_costs_no_commits() -> None:
    puppet = Puppet()
    async with calling(puppet, window=0.001) as call:
        puppet.say(TextDelta("a"))
        await call.commits(1)
        await asyncio.sleep(0.02)
        assert call.said() == [["a"]]


async def test_an_answer_that_is_there_at_once_needs_no_commit_of_its_own() -> None:
    puppet = Puppet()
    puppet.say(TextDelta("a"), TextDelta("b"), FINISHED)
    async with calling(puppet) as call:
        assert await call.task == FINISHED
    assert call.said() == []
    assert not call.log.draft.empty


@pytest.mark.parametrize("error", [ModelUnavailable("gone"), ModelRefused("no"), LeaseLost("mine")])
async def test_an_error_comes_out_as_it_is_and_the_stream_is_left(error: Exception) -> None:
    puppet = Puppet()
    async with calling(puppet) as call:
        puppet.say(TextDelta("a"), error)
        with pytest.raises(type(error)) as raised:
            await call.task
    assert raised.value is error
    assert puppet.left


async def test_when_it_fails_a_commit_that_is_on_its_way_is_seen_through() -> None:
    puppet = Puppet()
    async with calling(puppet) as call:
        call.notebook.gate.clear()
        puppet.say(TextDelta("a"))
        await call.notebook.begun.acquire()
        puppet.say(ModelUnavailable("gone"))
        while not puppet.left:  # noqa: ASYNC110 - the call goes on meanwhile
            await asyncio.sleep(0)
        assert not call.task.done()
        call.notebook.gate.set()
        with pytest.raises(ModelUnavailable):
            await call.task
    assert call.log.last_event_seq == len(call.notebook.events)


async def test_a_commit_that_fails_ends_the_call() -> None:
    puppet = Puppet()
    async with calling(puppet) as call:
        call.notebook.refusals = [LeaseLost("somebody else's")]
        puppet.say(TextDelta("a"))
        with pytest.raises(LeaseLost):
            await call.task
    assert puppet.left


async def test_a_stream_that_ends_without_an_end_is_no_answer() -> None:
    puppet = Puppet()
    puppet.say(TextDelta("a"), None)
    async with calling(puppet) as call:
        with pytest.raises(ModelUnavailable, match="stopped in the middle"):
            await call.task


async def test_a_model_that_is_silent_for_too_long_is_gone() -> None:
    puppet = Puppet()
    puppet.say(TextDelta("a"))
    async with calling(puppet, stall=0.01) as call:
        with pytest.raises(ModelUnavailable, match="said nothing for 0.01 seconds"):
            await call.task
    assert puppet.left


async def test_a_model_that_keeps_talking_may_take_as_long_as_it_likes() -> None:
    puppet = Puppet()
    async with calling(puppet, stall=0.2) as call:
        for _ in range(30):
            puppet.say(TextDelta("a"))
            await asyncio.sleep(0.01)
        puppet.say(FINISHED)
        assert await call.task == FINISHED


async def test_a_call_that_is_cut_off_leaves_the_stream_at_once() -> None:
    puppet = Puppet()
    async with calling(puppet) as call:
        puppet.say(TextDelta("a"))
        await call.commits(1)
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task
    assert puppet.left
