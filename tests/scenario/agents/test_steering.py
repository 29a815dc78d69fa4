"""A message to a running run is read once, before the next model call, and never lost."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from holdfast.domain.errors import Conflict, IdTaken, Invalid, NotFound
from holdfast.domain.events import TextMessageContent
from holdfast.domain.ids import MessageId, RunId
from holdfast.domain.message import Role
from holdfast.domain.plan_edit import AddPlanItem, NewPlanItem
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.fake_tools import BlockingTool
from tests.scenario.agents.workshop import SPACE, Floor, Workshop, call, calling, say

SEED = 20_260_131
MOMENTS = 60


async def test_a_message_is_read_before_the_next_model_call(anywhere: Workshop) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    anywhere.agent(calling(call("gate")), say("{$last_user}"), tools=["gate"])
    async with anywhere.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.runs.steer(SPACE, run.id, "left", by="ada")
        await floor.runs.steer(SPACE, run.id, "no, right", by="bob")
        gate.open.set()
        ended = await floor.ended(run)
        messages = await floor.messages(run)
        told = await floor.context(run)
    assert ended.output == "no, right"
    assert [message.content for message in messages] == ["go", "", "open", "left", "no, right", "no, right"]
    assert [(message.role, message.created_by) for message in messages[3:5]] == [(Role.USER, "ada"), (Role.USER, "bob")]
    assert [message.content for message in told.messages][-2:] == ["left", "no, right"]


async def _steered_while_it_speaks(floor: Floor, word: str) -> Run:
    """Return a run that was steered in its last answer: the first one on a machine that is not too busy for that."""
    while True:
        run = await floor.start()
        await floor.until(run, lambda event: isinstance(event, TextMessageContent))
        with suppress(Conflict):
            await floor.runs.steer(SPACE, run.id, word)
            return run


async def test_a_message_during_the_final_answer_is_read(anywhere: Workshop) -> None:
    anywhere.agent(say("a long answer", chunks=2, delay_ms=200), say("again, with {$last_user}"))
    async with anywhere.open() as floor:
        run = await _steered_while_it_speaks(floor, "sugar")
        ended = await floor.ended(run)
        said = await floor.said(run)
        steps = await floor.steps(run)
        await floor.events(run)
    assert ended.output == "again, with sugar"
    assert said == ["user: go", "assistant: a long answer", "user: sugar", "assistant: again, with sugar"]
    assert len(steps) == ended.iterations == 2


async def test_a_steering_message_does_not_restart_the_script(workshop: Workshop) -> None:
    """The turn is the number of answers since the message that began it: what comes in on the way does not count."""
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    turns = calling(call("gate")), calling(call("ask_user", question="?")), calling(call("sleep", seconds=3600))
    workshop.agent(*turns, say("the fourth turn"), tools=["gate", "ask_user", "sleep"])
    async with workshop.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.runs.steer(SPACE, run.id, "one")
        gate.open.set()
        await floor.asks(run)
        await floor.runs.respond(SPACE, run.id, "two")
        await floor.until(run, lambda event: "holdfast.status" in str(event) and "timer" in str(event))
        await floor.runs.steer(SPACE, run.id, "three")
        assert (await floor.ended(run)).output == "the fourth turn"


async def test_a_message_before_the_start_is_part_of_the_first_call(workshop: Workshop) -> None:
    workshop.agent(say("{$last_user}"))
    async with workshop.open(workers=0) as floor:
        run = await floor.start("begin")
        await floor.runs.steer(SPACE, run.id, "but gently")
    async with workshop.open() as floor:
        assert (await floor.ended(run)).output == "but gently"
        assert await floor.said(run) == ["user: begin", "user: but gently", "assistant: but gently"]


async def test_unread_messages_of_a_failed_run_reach_its_retry(anywhere: Workshop) -> None:
    anywhere.agent(say("{$last_user}"), tools=["no_such_tool"])
    async with anywhere.open(workers=0) as floor:
        run = await floor.start("begin")
        await floor.runs.steer(SPACE, run.id, "but gently", by="ada")
        await floor.holdfast.store.plans.edit(SPACE, run.thread_id, AddPlanItem(item=NewPlanItem(title="knead")))
    async with anywhere.open() as floor:
        failed = await floor.ended(run)
        said, messages = await floor.said(run), await floor.messages(run)
        plan = await floor.holdfast.store.plans.of_run(SPACE, run.id)
        await floor.events(run)
    anywhere.configure(tools=[])
    async with anywhere.open() as floor:
        again = await floor.ended((await floor.runs.retry(SPACE, run.id)).run)
        assert await floor.holdfast.store.plans.of_run(SPACE, again.id) == plan
    assert failed.status is RunStatus.FAILED
    assert said == ["user: begin", "user: but gently"]
    assert messages[1].created_by == "ada"
    assert [item.title for item in plan.items] == ["knead"]
    assert again.output == "but gently"


async def test_unread_messages_of_a_cancelled_run_reach_the_next_run(anywhere: Workshop) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    anywhere.agent(calling(call("gate")), say("{$last_user}"), tools=["gate"])
    async with anywhere.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.runs.steer(SPACE, run.id, "left")
        await floor.runs.cancel(SPACE, run.id)
        again = await floor.ended((await floor.runs.retry(SPACE, run.id)).run)
        told = await floor.context(again)
    assert [message.content for message in told.messages][-1] == "left"
    assert again.output == "left"


async def test_a_message_at_any_moment_is_read_once_or_refused(workshop: Workshop) -> None:
    """Each run is told something at a random moment: it answers that, or had ended before."""
    random = Random(SEED)
    turns = [calling(call("log_write", message="x"), say="hm", chunks=2, delay_ms=1)] * 3
    workshop.agent(*turns, say("done: {$last_user}"), tools=["log_write"])
    workshop.script(*turns, say("done: {$last_user}", chunks=3, delay_ms=1), after_last="repeat")
    async with workshop.open(workers=8) as floor:

        async def steer_at(moment: float) -> None:
            run = await floor.start()
            await asyncio.sleep(moment)
            try:
                await floor.runs.steer(SPACE, run.id, "listen")
            except Conflict:
                expected, times = "done: go", 0
            else:
                expected, times = "done: listen", 1
            ended = await floor.ended(run)
            assert (ended.status, ended.output) == (RunStatus.COMPLETED, expected)
            assert (await floor.said(run)).count("user: listen") == times
            await floor.events(run)

        await asyncio.gather(*(steer_at(random.uniform(0, 0.6)) for _ in range(MOMENTS)))


async def test_a_message_keeps_the_id_that_was_chosen_for_it(workshop: Workshop) -> None:
    workshop.agent(say("{$last_user}"))
    async with workshop.open(workers=0) as floor:
        run = await floor.start("begin")
        await floor.runs.steer(SPACE, run.id, "mine", message=MessageId("my-own"))
    async with workshop.open() as floor:
        await floor.ended(run)
        assert (await floor.messages(run))[1].id == "my-own"


async def test_a_used_message_id_does_not_break_the_run(workshop: Workshop) -> None:
    """A client that says the same thing again, because it heard no answer, may not end the run."""
    workshop.agent(say("{$last_user}"))
    workshop.script(say("{$last_user}"), after_last="repeat")
    async with workshop.open(workers=0) as floor:
        run = await floor.start("begin")
        first = (await floor.messages(run))[0].id
        with pytest.raises(IdTaken):
            await floor.runs.steer(SPACE, run.id, "as the first", message=first)
        await floor.runs.steer(SPACE, run.id, "once", message=MessageId("same"))
        with pytest.raises(IdTaken):
            await floor.runs.steer(SPACE, run.id, "twice", message=MessageId("same"))
    async with workshop.open() as floor:
        ended = await floor.ended(run)
        said, messages = await floor.said(run), await floor.messages(run)
    assert ended.status is RunStatus.COMPLETED
    assert said == ["user: begin", "user: once", "assistant: once"]
    assert [message.id == "same" for message in messages] == [False, True, False]


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"message": MessageId("not an id!")}, Invalid),
        ({"message": MessageId("")}, Invalid),
        ({"by": "x" * 300}, Invalid),
        ({"content": "half \ud800 of a pair"}, Invalid),
        ({"run": RunId("run_none")}, NotFound),
    ],
)
async def test_an_invalid_message_is_refused_and_the_run_continues(
    workshop: Workshop, told: dict[str, str], error: type[Exception]
) -> None:
    workshop.agent(say("{$last_user}"))
    async with workshop.open(workers=0) as floor:
        run = await floor.start()
        with pytest.raises(error):
            await floor.runs.steer(SPACE, **{"run": run.id, "content": "psst", **told})  # type: ignore[arg-type]
    async with workshop.open() as floor:
        assert (await floor.ended(run)).output == "go"


async def test_an_ended_run_accepts_no_message(workshop: Workshop) -> None:
    workshop.agent(say("done"))
    async with workshop.open() as floor:
        run = await floor.play()
        with pytest.raises(Conflict, match="has ended"):
            await floor.runs.steer(SPACE, run.id, "too late")
