"""A run from start to end: its events, its messages, and its context read back."""

import asyncio

from holdfast.agent.model_stream import StreamTimings
from holdfast.domain.events import ToolCallResult, event_type
from holdfast.domain.events.custom import StepChanged
from holdfast.domain.limits import Usage
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepKind, StepState
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import FakeTool

RUNS = 3
USED = {"input_tokens": 100, "output_tokens": 7}


async def test_a_run_completes_with_its_answer_as_output(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("Hello, {$last_user}.", chunks=3, usage=USED))
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end("Ada")
        assert (run.status, run.output, run.error) == (RunStatus.COMPLETED, "Hello, Ada.", None)
        assert run.usage == Usage(input_tokens=100, output_tokens=7, cost_usd=0.0)
        assert run.iterations == 1
        assert await runtime.texts(run) == ["user: Ada", "assistant: Hello, Ada."]
        events = await runtime.events(run)
    assert [event_type(event) for event in events] == [
        "RUN_STARTED",
        "CUSTOM",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "CUSTOM",
        "RUN_FINISHED",
    ]


async def test_every_call_is_a_step_and_usage_adds_up(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(
        calling(call("todo_write", items=[{"text": "a", "done": False}]), usage=USED),
        calling(call("todo_read"), call("todo_read"), usage=USED),
        say("done", usage=USED),
        tools=["todo_*"],
    )
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        steps = await runtime.steps(run)
        changes = await runtime.custom_events(run, StepChanged)
        results = [event for event in await runtime.events(run) if isinstance(event, ToolCallResult)]
        tool_messages = [message for message in await runtime.messages(run) if message.role is Role.TOOL]
    kinds = [step.kind for step in steps]
    assert kinds == [StepKind.MODEL, StepKind.TOOL, StepKind.MODEL, StepKind.TOOL, StepKind.TOOL, StepKind.MODEL]
    assert {step.state for step in steps} == {StepState.DONE}
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [step.key for step in steps] == [f"{run.id}.{number}" for number in range(1, 7)]
    assert {change.number for change in changes if change.state is StepState.DONE} == {1, 2, 3, 4, 5, 6}
    assert run.usage.input_tokens == sum(step.usage.input_tokens for step in steps if step.usage is not None) == 300
    assert run.iterations == 3
    assert [(event.message_id, event.content) for event in results] == [
        (each.id, each.content) for each in tool_messages
    ]


async def test_the_context_of_a_call_can_be_read_back_exactly(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(call("log_write", message="hm")), say("{$last_tool}"), tools=["log_write"])
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end("remember this")
        first, second = [await runtime.context(run, number) for number in (0, 1)]
        messages = await runtime.messages(run)
        steps = await runtime.store.contexts.steps(SPACE, run.id)
    assert steps == [1, 3]
    assert "Do as you are told." in first.system
    assert first.system == second.system
    assert [tool["name"] for tool in first.tools] == ["log_write"]
    assert [message.id for message in first.messages] == [messages[0].id]
    assert [message.id for message in second.messages] == [message.id for message in messages[:3]]
    assert first.messages[0].content == "remember this"
    assert first.complete and second.complete
    assert run.output == messages[2].content


async def test_reasoning_is_streamed_and_stored_with_the_message(workspace: AgentWorkspace) -> None:
    workspace.agent(say("yes", think="is it so?"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        types = [event_type(event) for event in await runtime.events(run)]
        answer = (await runtime.messages(run))[-1]
    assert types[2:6] == ["REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"] + [
        "REASONING_MESSAGE_END"
    ]
    assert answer.metadata["thinking"] == "is it so?"


async def test_a_run_continues_the_conversation_of_its_thread(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("I heard {$last_user}"))
    async with any_workspace.open() as runtime:
        first = await runtime.run_to_end("one")
        second = await runtime.run_to_end("two", thread=first.thread_id)
        context = await runtime.context(second)
    assert second.output == "I heard two"
    assert second.base_run_id == first.id
    assert [message.content for message in context.messages] == ["one", "I heard one", "two"]


async def test_quick_messages_run_one_after_the_other(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("I heard {$last_user}", chunks=3, delay_ms=2))
    async with any_workspace.open() as runtime:
        first = await runtime.start("one")
        second = await runtime.start("two", thread=first.thread_id)
        third = await runtime.start("three", thread=first.thread_id)
        await runtime.wait_until_ended(third)
        context = await runtime.context(third)
        chain = [message.sequence for message in await runtime.store.messages.history(SPACE, third.id)]
    assert [message.content for message in context.messages] == [
        "one",
        "I heard one",
        "two",
        "I heard two",
        "three",
    ]
    assert chain == list(range(6))
    assert second.base_run_id == first.id


async def test_many_runs_at_once_all_end(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(call("log_write", message="x")), say("done", chunks=5), tools=["log_write"])
    async with any_workspace.open(workers=8) as runtime:
        runs = [await runtime.start() for _ in range(30)]
        ended_runs = [await runtime.wait_until_ended(run) for run in runs]
    assert {run.status for run in ended_runs} == {RunStatus.COMPLETED}


async def test_a_process_without_workers_executes_no_run(workspace: AgentWorkspace) -> None:
    workspace.agent(say("done"))
    async with workspace.open(workers=0) as runtime:
        run = await runtime.start()
        assert run.status is RunStatus.QUEUED
    async with workspace.open() as runtime:
        assert (await runtime.wait_until_ended(run)).output == "done"


async def test_runs_commit_at_an_interval_for_as_many_as_are_under_way(any_workspace: AgentWorkspace) -> None:
    together, counts = asyncio.Barrier(RUNS), []

    async def meet(arguments: object) -> ToolResult:
        await together.wait()
        return ToolResult(content="met")

    class RecordedTimings(StreamTimings, frozen=True):
        def commit_interval(self, runs: int) -> float:
            counts.append(runs)
            return 0.001

    paced = say(" ".join("abc" * 50), chunks=150, delay_ms=2)  # longer than any commit takes
    any_workspace.agent(calling(call("meet")), paced, tools=["meet"])
    any_workspace.agent(paced, name="alone")
    async with any_workspace.open(FakeTool("meet", meet), stream_timings=RecordedTimings()) as runtime:
        await asyncio.gather(*(runtime.run_to_end() for _ in range(RUNS)))
        assert max(counts) == RUNS
        counts.clear()
        await runtime.run_to_end(agent="alone")
    assert set(counts) == {1}
