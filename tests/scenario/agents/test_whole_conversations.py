"""A conversation that fits into the token budget is sent whole, however many messages it has."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.events.custom import ContextCompacted
from holdfast.domain.ids import ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Run
from holdfast.domain.thread import NewThread
from holdfast.testing.openai_server import StubOpenAIServer, StubReply
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentRuntime, AgentWorkspace
from tests.scenario.agents.fake_tools import fixed_tool
from tests.scenario.agents.test_long_conversations import is_summary

MAX_INPUT: Final = 1_000
SMALL_WINDOW: Final = 8_000
SUMMARY: Final = "they counted and counted " * 15
"""About 60 words."""


@pytest.fixture
async def server(any_workspace: AgentWorkspace) -> AsyncIterator[StubOpenAIServer]:
    """Yield a provider that the agent `bot` uses."""
    async with StubOpenAIServer(default_reply=StubReply(text="noted")) as stub:
        any_workspace.provider(stub)
        any_workspace.agent(model=STAND_IN)
        yield stub


async def tell(runtime: AgentRuntime, first: int, count: int, *, thread: NewThread | ThreadId) -> Run:
    """Run an agent whose input ends a chat of short messages, from `first` on."""
    messages = [
        NewMessage(role=Role.ASSISTANT if number % 2 else Role.USER, content=f"number {number}")
        for number in range(first, first + count)
    ]
    return await runtime.run_to_end(messages=messages, thread=thread)


async def chat(runtime: AgentRuntime, count: int, **thread: Json) -> Run:
    """Run an agent at the end of `count` short messages, the answers not counted."""
    run = await tell(runtime, 0, min(count, MAX_INPUT), thread=NewThread(agent_type="bot", **thread))
    for first in range(MAX_INPUT, count, MAX_INPUT):
        run = await tell(runtime, first, min(count - first, MAX_INPUT), thread=run.thread_id)
    return run


def numbers(request: Json) -> list[int]:
    """Return the numbers that the messages of a request name."""
    texts = [str(message["content"]) for message in request["messages"]]
    return [int(text.removeprefix("number ")) for text in texts if text.startswith("number ")]


@pytest.mark.parametrize("count", [61, 500, 5_000])
async def test_a_conversation_that_fits_is_sent_whole(
    any_workspace: AgentWorkspace, server: StubOpenAIServer, count: int
) -> None:
    async with any_workspace.open() as runtime:
        run = await chat(runtime, count)
        context = await runtime.context(run)
    assert numbers(server.requests[-1]) == list(range(count))
    assert not any(map(is_summary, server.requests))
    assert context.complete and context.first_sequence == 0
    assert sum(str(message.content).startswith("number ") for message in context.messages) == count


async def test_each_request_of_a_chat_begins_like_the_one_before(
    any_workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    async with any_workspace.open() as runtime:
        run = await chat(runtime, 61)
        for number in range(62, 70, 2):
            run = await tell(runtime, number, 1, thread=run.thread_id)
    for earlier, later in zip(server.requests[:-1], server.requests[1:], strict=True):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        assert later.get("tools") == earlier.get("tools")


async def test_a_conversation_that_does_not_fit_keeps_the_context_window_and_a_summary(
    any_workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    any_workspace.provider(server, context_window=SMALL_WINDOW)
    tools = [fixed_tool(f"tool_{number}", "seen") for number in range(20)]
    any_workspace.configure(model=STAND_IN, tools=[tool.spec.name for tool in tools])
    server.add_replies(StubReply(text=SUMMARY))
    async with any_workspace.open(*tools) as runtime:
        run = await chat(runtime, 1_000, context_window=30)
        (compacted,) = await runtime.custom_events(run, ContextCompacted)
        context = await runtime.context(run)
        after = len(server.requests)
        for number in range(1_002, 1_012, 2):
            run = await tell(runtime, number, 1, thread=run.thread_id)
        stored = await runtime.store.messages.history(SPACE, run.id, limit=1_000)
    assert [is_summary(request) for request in server.requests[:after]] == [True, False]
    sent = server.requests[after - 1]
    assert numbers(sent) == list(range(970, 1_000))
    note = str(sent["messages"][1]["content"])
    assert SUMMARY.strip() in note
    assert "Older messages of this conversation are not shown" in note
    assert sum(context.tokens.values()) < SMALL_WINDOW
    assert compacted.tokens_after < compacted.tokens_before
    assert not any(map(is_summary, server.requests[after:]))
    for request in server.requests[after:]:
        assert request["messages"][: len(sent["messages"])] == sent["messages"]
    assert len(stored) == 1_000
