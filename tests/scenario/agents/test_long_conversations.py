"""Conversations that exceed the context window: they are compacted, and stored completely."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from holdfast.agent.model_stream import StreamTimings
from holdfast.domain.content import Json
from holdfast.domain.events.custom import ContextCompacted
from holdfast.domain.limits import Limits
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply, StubToolCall
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import fixed_tool, raising_tool

WINDOW: Final = 3_000
LONG: Final = "The quick brown fox jumps over the lazy dog, and then it does so again. " * 8
"""About 150 tokens."""


@pytest.fixture
async def server(workspace: AgentWorkspace) -> AsyncIterator[StubOpenAIServer]:
    """Yield a provider with a small context window, which the agent `bot` uses."""
    async with StubOpenAIServer(default_reply=StubReply(text=LONG)) as stand_in:
        workspace.provider(stand_in, context_window=WINDOW)
        workspace.agent(model=STAND_IN)
        yield stand_in


async def run_messages(runtime: AgentRuntime, count: int) -> Run:
    """Run several user messages one after the other on a new thread."""
    return await continue_thread(runtime, await runtime.run_to_end(f"0: {LONG}"), count - 1)


async def continue_thread(runtime: AgentRuntime, run: Run, count: int) -> Run:
    """Run more user messages on the same thread."""
    for number in range(1, count + 1):
        assert run.status is RunStatus.COMPLETED, run.error
        run = await runtime.run_to_end(f"{number}: {LONG}", thread=run.thread_id)
    return run


def is_summary(request: Json) -> bool:
    """Return whether a request asks for a summary."""
    return "tools" not in request and "summar" in str(request["messages"][-1]["content"]).lower()


async def test_a_long_conversation_is_compacted_and_stored_completely(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("You said {$last_user}"))
    any_workspace.script(say("You said {$last_user}"), context_window=WINDOW)
    async with any_workspace.open() as runtime:
        run = await run_messages(runtime, 14)
        context = await runtime.context(run)
        history = await runtime.store.messages.history(SPACE, run.id, limit=200)
        values = await runtime.store.values.of_run(SPACE, run.id)
        runs = (await runtime.store.runs.page(SPACE, limit=50)).items
        compactions = [each for one in runs for each in await runtime.custom_events(one, ContextCompacted)]
    assert str(run.output).startswith("You said 13: ")
    assert len(history) == 28
    assert compactions and all(each.tokens_after < each.tokens_before for each in compactions)
    assert values["compaction"]["through"] == context.compaction_through
    assert context.first_sequence is not None and context.first_sequence > 0
    assert sum(context.tokens.values()) < WINDOW
    assert "The quick brown fox" in str(context.messages[0].content)
    assert context.messages[-1].content == f"13: {LONG}"


async def test_a_run_of_many_calls_stays_within_its_window(workspace: AgentWorkspace) -> None:
    turns = [calling(call("log_write", message=f"{number}"), say=LONG) for number in range(25)]
    workspace.agent(*turns, say("done"), tools=["log_write"])
    workspace.script(*turns, say("done"), context_window=WINDOW)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end("the task")
        contexts = [await runtime.context(run, number) for number in range(run.iterations)]
        assert len(await runtime.custom_events(run, ContextCompacted)) >= 1
    assert run.output == "done"
    assert all(sum(context.tokens.values()) < WINDOW for context in contexts)
    assert all("the task" in str([message.content for message in context.messages]) for context in contexts)


async def test_a_run_is_reminded_of_its_goal_at_intervals(workspace: AgentWorkspace) -> None:
    turns = [calling(call("log_write", message=f"{number}")) for number in range(21)]
    workspace.agent(*turns, say("done"), tools=["log_write"])
    async with workspace.open() as runtime:
        run = await runtime.run_to_end("find the needle")
        contexts = [await runtime.context(run, number) for number in range(run.iterations)]
    reminded = [
        number
        for number, context in enumerate(contexts)
        if any(each.role is Role.SYSTEM and "find the needle" in str(each.content) for each in context.messages)
    ]
    assert reminded == [10, 20]
    assert all(context.complete for context in contexts)


async def test_a_repeated_error_causes_a_reminder(workspace: AgentWorkspace) -> None:
    workspace.agent(*(calling(call("broken", n=number)) for number in range(5)), say("done"), tools=["broken"])
    async with workspace.open(raising_tool("broken", ValueError("no luck"))) as runtime:
        run = await runtime.run_to_end()
        contexts = [await runtime.context(run, number) for number in range(run.iterations)]
    reminders = [[each for each in context.messages if each.role is Role.SYSTEM] for context in contexts]
    assert run.output == "done"
    assert [bool(each) for each in reminders] == [False, False, False, True, True, True]


async def test_a_context_overflow_compacts_the_conversation(
    workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    async with workspace.open() as runtime:
        run = await run_messages(runtime, 3)
        server.requests.clear()
        server.add_replies(
            StubReply(status=400, error_code="context_length_exceeded"),
            StubReply(text="in short"),
            StubReply(text="done"),
        )
        run = await runtime.run_to_end("and now?", thread=run.thread_id)
        states = [step.state for step in await runtime.steps(run)]
    assert run.output == "done"
    assert [is_summary(request) for request in server.requests] == [False, True, False]
    assert "in short" in str(server.requests[2])
    assert states == [StepState.FAILED, StepState.DONE]


async def test_a_second_context_overflow_fails_the_run(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    too_long = StubReply(status=400, error_code="context_length_exceeded")
    async with workspace.open() as runtime:
        run = await run_messages(runtime, 3)
        server.requests.clear()
        server.add_replies(too_long, StubReply(text="in short"), too_long)
        run = await runtime.run_to_end("and now?", thread=run.thread_id)
        await runtime.events(run)
    assert run.error is not None and run.error.code == "CONTEXT_OVERFLOW"
    assert len(server.requests) == 3


async def test_a_context_overflow_of_the_first_call_fails_the_run(
    workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    server.add_replies(*[StubReply(status=400, error_code="context_length_exceeded")] * 3)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end("hello")
    assert run.error is not None and run.error.code == "CONTEXT_OVERFLOW"
    assert len(server.requests) == 2


BROKEN = [
    StubReply(status=500),
    StubReply(status=400),
    StubReply(status=400, error_code="context_length_exceeded"),
    StubReply(fault=StubFault.HANG_UP),
    StubReply(text="half", fault=StubFault.STALL),
    StubReply(text="half", fault=StubFault.CUT),
    StubReply(fault=StubFault.SILENCE),
    StubReply(text=""),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: str(broken.fault or broken.error_code or broken.status))
async def test_a_run_continues_without_a_failed_summary(
    workspace: AgentWorkspace, server: StubOpenAIServer, broken: StubReply
) -> None:
    async with workspace.open(stream_timings=StreamTimings(idle_timeout_seconds=0.3)) as runtime:
        run = await run_messages(runtime, 5)
        server.requests.clear()
        server.add_replies(broken, StubReply(text="done"))
        run = await runtime.run_to_end(f"and now? {LONG}", thread=run.thread_id)
        context = await runtime.context(run)
        await runtime.events(run)
    assert run.output == "done"
    assert [is_summary(request) for request in server.requests] == [True, False]
    assert sum(context.tokens.values()) < WINDOW


async def test_a_run_continues_while_no_summary_is_written(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    async with workspace.open(stream_timings=StreamTimings(idle_timeout_seconds=0.3)) as runtime:
        run = await run_messages(runtime, 5)
        server.requests.clear()
        server.add_replies(*[StubReply(status=500), StubReply(text=LONG)] * 2)
        run = await continue_thread(runtime, run, 6)
        context = await runtime.context(run)
    assert sum(map(is_summary, server.requests)) >= 2
    assert sum(context.tokens.values()) < WINDOW


async def test_a_summary_is_charged_and_needs_a_budget(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    async with workspace.open() as runtime:
        run = await run_messages(runtime, 5)
        server.add_replies(StubReply(text="in short", input_tokens=70, output_tokens=30), StubReply(text="done"))
        paid = await runtime.run_to_end(f"and now? {LONG}", thread=run.thread_id, limits=Limits(token_budget=1000))
    assert paid.output == "done"
    assert paid.usage.total_tokens == 100 + 15


async def test_an_unfinished_summary_is_charged(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    async with workspace.open() as runtime:
        run = await run_messages(runtime, 5)
        server.add_replies(StubReply(text="in short " * 50, fault=StubFault.CUT), StubReply(text="done"))
        paid = await runtime.run_to_end(f"and now? {LONG}", thread=run.thread_id)
    assert paid.output == "done"
    assert paid.usage.input_tokens > 10 + 150
    assert paid.usage.output_tokens > 5 + 50


async def test_no_summary_is_requested_when_the_budget_is_spent(
    workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    look = StubReply(text=LONG, calls=[StubToolCall(name="look")], input_tokens=90, output_tokens=20)
    workspace.configure(model=STAND_IN, tools=["look"])
    async with workspace.open(fixed_tool("look", LONG * 4)) as runtime:
        run = await run_messages(runtime, 4)
        server.requests.clear()
        server.add_replies(look)
        run = await runtime.run_to_end("look", thread=run.thread_id, limits=Limits(token_budget=100))
    assert run.error is not None and run.error.code == "BUDGET_EXCEEDED"
    assert [is_summary(request) for request in server.requests] == [False]
    assert run.usage.total_tokens == 110
