"""`ContextBuilder` reads as much of a conversation as fits into a model call, in pages."""

import msgspec

from holdfast.agent.context.builder import COMPACTION_VALUE, MAX_PAGE_MESSAGES, ContextBuilder
from holdfast.agent.context.conversation import ConversationWindow, TurnPosition
from holdfast.agent.context.system_prompt import PromptComposer
from holdfast.agent.context.tokens import ToolMeasurer
from holdfast.agent.inbox_reader import InboxReader
from holdfast.agent.run_context import LoopConfig, RunContext
from holdfast.agent.step_ledger import StepLedger
from holdfast.domain.context import Compaction
from holdfast.domain.events import Custom
from holdfast.domain.events.custom import McpServerUnavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.message import Message
from holdfast.domain.thread import DEFAULT_CONTEXT_WINDOW_MESSAGES, Thread, ThreadStatus
from holdfast.testing.clock import HeldClock
from holdfast.tools.registry import ToolCatalog
from holdfast.tools.tool import passthrough
from tests.unit.agent.builders import NOW, RUN, THREAD, TOKENS, Log, agent
from tests.unit.agent.fakes import LEASE, FakeJournal, FakeModel, new_writer
from tests.unit.tools.builtin.fake_library import FakeLibrary

LONG = "a message of very many words " * 50
"""About 300 tokens."""


def chat(count: int, *, text: str = "short") -> list[Message]:
    """Return a conversation."""
    log = Log()
    for number in range(count):
        log.user(text) if number % 2 == 0 else log.says(text)
    return log.messages


def builder_at_end(journal: FakeJournal, messages: list[Message]) -> tuple[ContextBuilder, RunContext]:
    """Return the builder of a run that was opened with the last messages of a conversation."""
    opened = messages[-DEFAULT_CONTEXT_WINDOW_MESSAGES:]
    conversation = ConversationWindow(
        RUN, opened, turn=TurnPosition(goal=opened[-1], position=0), whole=len(opened) < DEFAULT_CONTEXT_WINDOW_MESSAGES
    )
    ctx = RunContext(
        lease=LEASE,
        thread=_THREAD,
        journal=journal,
        writer=new_writer(journal, conversation=conversation),
        ledger=StepLedger(RUN, ()),
        conversation=conversation,
        inbox=InboxReader(),
        values={},
        interrupts={},
        tokens=TOKENS,
        clock=HeldClock(),
        config=LoopConfig(),
        middleware=passthrough,
    )
    ctx.agent, ctx.model, ctx.toolset = agent(), FakeModel(), ToolCatalog([]).toolset([])
    ctx.library = FakeLibrary()
    return ContextBuilder(ctx, PromptComposer(TOKENS), ToolMeasurer(TOKENS), workspace="w"), ctx


async def test_a_conversation_that_fits_is_read_once() -> None:
    messages = chat(5_000)
    journal = FakeJournal(messages)
    builder, ctx = builder_at_end(journal, messages)
    _, context = await builder.build()
    assert context.messages == messages
    pages = len(journal.history_requests)
    assert pages <= 2 + 5_000 // MAX_PAGE_MESSAGES + 3  # pages grow up to the largest
    ctx.conversation.add([messages[-1]])
    await builder.build()
    assert len(journal.history_requests) == pages


async def test_a_short_conversation_is_not_read_again() -> None:
    messages = chat(DEFAULT_CONTEXT_WINDOW_MESSAGES - 1)
    journal = FakeJournal(messages)
    builder, _ = builder_at_end(journal, messages)
    await builder.build()
    assert journal.history_requests == []


async def test_reading_stops_where_a_summary_begins() -> None:
    messages = chat(5_000)
    journal = FakeJournal(messages)
    builder, ctx = builder_at_end(journal, messages)
    ctx.values[COMPACTION_VALUE] = msgspec.to_builtins(Compaction(through=4_899, summary="they talked"))
    _, context = await builder.build()
    assert [message for message in context.messages if isinstance(message, Message)] == messages[4_900:]
    assert len(ctx.conversation.messages) < 300


async def test_not_much_more_is_read_than_fits() -> None:
    messages = chat(5_000, text=LONG)
    journal = FakeJournal(messages)
    builder, ctx = builder_at_end(journal, messages)
    ctx.values[COMPACTION_VALUE] = msgspec.to_builtins(  # exhausted: this call makes no summary
        Compaction(failed_tries=2, tokens_after=10**9)
    )
    _, context = await builder.build()
    sent = sum(isinstance(message, Message) for message in context.messages)
    assert 200 < sent < len(ctx.conversation.messages) < 1.2 * sent


_THREAD = Thread(
    id=THREAD,
    space_id=SpaceId("spc_1"),
    title=None,
    agent_type="clerk",
    status=ThreadStatus.ACTIVE,
    locale=None,
    summary=None,
    key_points=[],
    retrieval_index=None,
    indexed_sequence=-1,
    context_window=DEFAULT_CONTEXT_WINDOW_MESSAGES,
    metadata={},
    next_sequence=0,
    last_run_at=None,
    created_by=None,
    created_at=NOW,
)


async def test_a_server_that_fails_again_for_the_same_reason_is_one_event_and_told_in_each_call() -> None:
    messages = chat(1)
    builder, ctx = builder_at_end(FakeJournal(messages), messages)
    for stderr in ("log 1", "log 2"):
        ctx.report_unavailable([McpServerUnavailable(server="desk", message="it ended", stderr=stderr)])
        _, context = await builder.build()
        assert "`mcp__desk__*`" in str(context)
    ctx.report_unavailable([McpServerUnavailable(server="desk", message="it hangs")])
    messages_of_events = [event.value["message"] for event in ctx.writer.draft.events if isinstance(event, Custom)]
    assert messages_of_events == ["it ended", "it hangs"]
    ctx.report_unavailable([])
    _, context = await builder.build()
    assert "mcp__desk__" not in str(context)
