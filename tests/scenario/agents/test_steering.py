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
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool

SEED = 20_260_131
MOMENTS = 60


async def test_a_message_is_read_before_the_next_model_call(any_workspace: AgentWorkspace) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    any_workspace.agent(calling(call("gate")), say("{$last_user}"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.runs.steer(SPACE, run.id, "left", by="ada")
        await runtime.runs.steer(SPACE, run.id, "no, right", by="bob")
        gate.open.set()
        ended_run = await runtime.wait_until_ended(run)
        messages = await runtime.messages(run)
        context = await runtime.context(run)
    assert ended_run.output == "no, right"
    assert [message.content for message in messages] == ["go", "", "open", "left", "no, right", "no, right"]
    assert [(message.role, message.created_by) for message in messages[3:5]] == [(Role.USER, "ada"), (Role.USER, "bob")]
    assert [message.content for message in context.messages][-2:] == ["left", "no, right"]


async def _steer_during_answer(runtime: AgentRuntime, text: str) -> Run:
    """Return a run that was steered during its last answer, after retries on a busy machine."""
    while True:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: isinstance(event, TextMessageContent))
        with suppress(Conflict):
            await runtime.runs.steer(SPACE, run.id, text)
            return run


async def test_a_message_during_the_final_answer_is_read(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("a long answer", chunks=2, delay_ms=200), say("again, with {$last_user}"))
    async with any_workspace.open() as runtime:
        run = await _steer_during_answer(runtime, "sugar")
        ended_run = await runtime.wait_until_ended(run)
        texts = await runtime.texts(run)
        steps = await runtime.steps(run)
        await runtime.events(run)
    assert ended_run.output == "again, with sugar"
    assert texts == ["user: go", "assistant: a long answer", "user: sugar", "assistant: again, with sugar"]
    assert len(steps) == ended_run.iterations == 2


async def test_a_steering_message_does_not_restart_the_script(workspace: AgentWorkspace) -> None:
    """The turn is the number of answers since the message that started the run; steering messages do not count."""
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    turns = calling(call("gate")), calling(call("ask_user", question="?")), calling(call("sleep", seconds=3600))
    workspace.agent(*turns, say("the fourth turn"), tools=["gate", "ask_user", "sleep"])
    async with workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.runs.steer(SPACE, run.id, "one")
        gate.open.set()
        await runtime.wait_for_interrupts(run)
        await runtime.runs.respond(SPACE, run.id, "two")
        await runtime.wait_for_event(run, lambda event: "holdfast.status" in str(event) and "timer" in str(event))
        await runtime.runs.steer(SPACE, run.id, "three")
        assert (await runtime.wait_until_ended(run)).output == "the fourth turn"


async def test_a_message_before_the_start_is_part_of_the_first_call(workspace: AgentWorkspace) -> None:
    workspace.agent(say("{$last_user}"))
    async with workspace.open(workers=0) as runtime:
        run = await runtime.start("begin")
        await runtime.runs.steer(SPACE, run.id, "but gently")
    async with workspace.open() as runtime:
        assert (await runtime.wait_until_ended(run)).output == "but gently"
        assert await runtime.texts(run) == ["user: begin", "user: but gently", "assistant: but gently"]


async def test_unread_messages_of_a_failed_run_reach_its_retry(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("{$last_user}"), tools=["no_such_tool"])
    async with any_workspace.open(workers=0) as runtime:
        run = await runtime.start("begin")
        await runtime.runs.steer(SPACE, run.id, "but gently", by="ada")
        await runtime.holdfast.store.plans.edit(SPACE, run.thread_id, AddPlanItem(item=NewPlanItem(title="knead")))
    async with any_workspace.open() as runtime:
        failed = await runtime.wait_until_ended(run)
        texts, messages = await runtime.texts(run), await runtime.messages(run)
        plan = await runtime.holdfast.store.plans.of_run(SPACE, run.id)
        await runtime.events(run)
    any_workspace.configure(tools=[])
    async with any_workspace.open() as runtime:
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, run.id)).run)
        assert await runtime.holdfast.store.plans.of_run(SPACE, retry.id) == plan
    assert failed.status is RunStatus.FAILED
    assert texts == ["user: begin", "user: but gently"]
    assert messages[1].created_by == "ada"
    assert [item.title for item in plan.items] == ["knead"]
    assert retry.output == "but gently"


async def test_unread_messages_of_a_cancelled_run_reach_the_next_run(any_workspace: AgentWorkspace) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    any_workspace.agent(calling(call("gate")), say("{$last_user}"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.runs.steer(SPACE, run.id, "left")
        await runtime.runs.cancel(SPACE, run.id)
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, run.id)).run)
        context = await runtime.context(retry)
    assert [message.content for message in context.messages][-1] == "left"
    assert retry.output == "left"


async def test_a_message_at_any_moment_is_read_once_or_refused(workspace: AgentWorkspace) -> None:
    """Each run gets a message at a random moment: it answers the message, or had ended before."""
    random = Random(SEED)
    turns = [calling(call("log_write", message="x"), say="hm", chunks=2, delay_ms=1)] * 3
    workspace.agent(*turns, say("done: {$last_user}"), tools=["log_write"])
    workspace.script(*turns, say("done: {$last_user}", chunks=3, delay_ms=1), after_last="repeat")
    async with workspace.open(workers=8) as runtime:

        async def steer_at(moment: float) -> None:
            run = await runtime.start()
            await asyncio.sleep(moment)
            try:
                await runtime.runs.steer(SPACE, run.id, "listen")
            except Conflict:
                expected, times = "done: go", 0
            else:
                expected, times = "done: listen", 1
            ended_run = await runtime.wait_until_ended(run)
            assert (ended_run.status, ended_run.output) == (RunStatus.COMPLETED, expected)
            assert (await runtime.texts(run)).count("user: listen") == times
            await runtime.events(run)

        await asyncio.gather(*(steer_at(random.uniform(0, 0.6)) for _ in range(MOMENTS)))


async def test_a_message_keeps_the_id_that_was_chosen_for_it(workspace: AgentWorkspace) -> None:
    workspace.agent(say("{$last_user}"))
    async with workspace.open(workers=0) as runtime:
        run = await runtime.start("begin")
        await runtime.runs.steer(SPACE, run.id, "mine", message=MessageId("my-own"))
    async with workspace.open() as runtime:
        await runtime.wait_until_ended(run)
        assert (await runtime.messages(run))[1].id == "my-own"


async def test_a_used_message_id_does_not_break_the_run(workspace: AgentWorkspace) -> None:
    """A client that repeats a message because it got no response must not end the run."""
    workspace.agent(say("{$last_user}"))
    workspace.script(say("{$last_user}"), after_last="repeat")
    async with workspace.open(workers=0) as runtime:
        run = await runtime.start("begin")
        first = (await runtime.messages(run))[0].id
        with pytest.raises(IdTaken):
            await runtime.runs.steer(SPACE, run.id, "as the first", message=first)
        await runtime.runs.steer(SPACE, run.id, "once", message=MessageId("same"))
        with pytest.raises(IdTaken):
            await runtime.runs.steer(SPACE, run.id, "twice", message=MessageId("same"))
    async with workspace.open() as runtime:
        ended_run = await runtime.wait_until_ended(run)
        texts, messages = await runtime.texts(run), await runtime.messages(run)
    assert ended_run.status is RunStatus.COMPLETED
    assert texts == ["user: begin", "user: once", "assistant: once"]
    assert [message.id == "same" for message in messages] == [False, True, False]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"message": MessageId("not an id!")}, Invalid),
        ({"message": MessageId("")}, Invalid),
        ({"by": "x" * 300}, Invalid),
        ({"content": "half \ud800 of a pair"}, Invalid),
        ({"run": RunId("run_none")}, NotFound),
    ],
)
async def test_an_invalid_message_is_refused_and_the_run_continues(
    workspace: AgentWorkspace, arguments: dict[str, str], error: type[Exception]
) -> None:
    workspace.agent(say("{$last_user}"))
    async with workspace.open(workers=0) as runtime:
        run = await runtime.start()
        with pytest.raises(error):
            await runtime.runs.steer(SPACE, **{"run": run.id, "content": "psst", **arguments})  # type: ignore[arg-type]
    async with workspace.open() as runtime:
        assert (await runtime.wait_until_ended(run)).output == "go"


async def test_an_ended_run_accepts_no_message(workspace: AgentWorkspace) -> None:
    workspace.agent(say("done"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        with pytest.raises(Conflict, match="has ended"):
            await runtime.runs.steer(SPACE, run.id, "too late")
