"""The normalisation rules: one function per family of events (text, reasoning, tool calls, sub-agents).

Text: one start per message, one end per start, no delta lost. Reasoning: the same, with spans. Tool calls: each is in a
message, and its result follows its arguments. Sub-agents: each starts and ends once, under an id of its own.

Each yielded event must be recorded in the state before the next one is requested.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningEvent,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    SubagentError,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
    TextEvent,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallEvent,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.stream.state import StreamIds, StreamState, message_ends, reasoning_message_ends, work_ends

_MessageChunk: TypeAlias = TextMessageChunk | ReasoningMessageChunk
_Continuation = TypeVar(
    "_Continuation",
    bound=TextMessageContent | TextMessageEnd | ReasoningMessageContent | ReasoningMessageEnd | ReasoningEnd,
)


def normalise_text(state: StreamState, event: TextEvent) -> Iterator[Event]:
    """Yield the events to log for a text `event`."""
    texts = state.texts
    match event:
        case TextMessageStart():
            if not texts.is_open(event.message_id):
                owner = state.tag(event.subagent_run_id)
                yield replace(event, message_id=texts.new_id(event.message_id), subagent_run_id=owner)
        case TextMessageContent():
            if not texts.is_open(event.message_id):
                yield from normalise_text(state, _missing_text_start(state, event))
            yield from _continue_message(texts, event)
        case TextMessageEnd():
            yield from _continue_message(texts, event)
        case TextMessageChunk():
            yield from _expand_message_chunk(state, texts, event)
        case _:
            assert_never(event)


def _missing_text_start(state: StreamState, event: TextMessageContent) -> TextMessageStart:
    # A message that was ended too early continues with the same role, name and owner.
    earlier = state.texts.logged_id(event.message_id)
    role, name = state.authors.get(earlier, (UNSET, UNSET))
    tag = event.subagent_run_id
    owner = state.segment.messages.get(earlier, UNSET) if tag is UNSET else tag
    return TextMessageStart(
        message_id=event.message_id, role=role, name=name, subagent_run_id=owner, timestamp=event.timestamp
    )


def _continue_message(ids: StreamIds[MessageId], event: _Continuation) -> Iterator[_Continuation]:
    """Yield `event` with its logged id and owner, if its message or span is open."""
    name = ids.logged_id(event.message_id)
    if name in ids.open:
        yield replace(event, message_id=name, subagent_run_id=ids.open[name])


def _expand_message_chunk(state: StreamState, ids: StreamIds[MessageId], chunk: _MessageChunk) -> Iterator[Event]:
    """Yield a start, unless the message is open, and the delta of `chunk`."""
    owner = state.tag(chunk.subagent_run_id)
    message_id = ids.latest(owner) if chunk.message_id is UNSET else chunk.message_id
    if message_id is None:
        return
    shared: dict[str, Any] = {"message_id": message_id, "timestamp": chunk.timestamp, "metadata": chunk.metadata}
    opened = not ids.is_open(message_id)
    if opened:
        yield from message_ends(state, owner=owner)
        if isinstance(chunk, TextMessageChunk):
            start = TextMessageStart(role=chunk.role, name=chunk.name, subagent_run_id=owner, **shared)
            yield from normalise_text(state, start)
        else:
            yield from normalise_reasoning(state, ReasoningMessageStart(subagent_run_id=owner, **shared))
    if _has_content(chunk, opened=opened):
        content = TextMessageContent if isinstance(chunk, TextMessageChunk) else ReasoningMessageContent
        yield from _continue_message(ids, content(delta=chunk.delta or "", raw_event=chunk.raw_event, **shared))


def _has_content(chunk: _MessageChunk | ToolCallChunk, *, opened: bool) -> bool:
    """Return whether `chunk` carries more than the start event that it `opened` its message with."""
    if chunk.delta is not UNSET or chunk.raw_event is not UNSET:
        return True
    return chunk.metadata is not UNSET and not opened


def normalise_reasoning(state: StreamState, event: ReasoningEvent) -> Iterator[Event]:
    """Yield the events to log for a reasoning `event`."""
    match event:
        case ReasoningStart():
            yield from _start_reasoning(state, state.spans, event)
        case ReasoningEnd():
            yield from _continue_message(state.spans, event)
        case ReasoningMessageStart():
            yield from _start_reasoning(state, state.reasoning, event)
        case ReasoningMessageContent(message_id=message_id, subagent_run_id=tag):
            if not state.reasoning.is_open(message_id):
                earlier = state.reasoning.logged_id(message_id)
                owner = state.segment.reasoning.get(earlier, UNSET) if tag is UNSET else tag
                start = ReasoningMessageStart(message_id=message_id, subagent_run_id=owner, timestamp=event.timestamp)
                yield from _start_reasoning(state, state.reasoning, start)
            yield from _continue_message(state.reasoning, event)
        case ReasoningMessageEnd():
            yield from _continue_message(state.reasoning, event)
        case ReasoningMessageChunk():
            yield from _expand_message_chunk(state, state.reasoning, event)
        case ReasoningEncryptedValue():
            # Without a tag, the value belongs to the owner of the message or call that it names.
            yield replace(event, entity_id=_encrypted_entity_id(state, event), subagent_run_id=UNSET)
        case _:
            assert_never(event)


def _start_reasoning(
    state: StreamState, ids: StreamIds[MessageId], start: ReasoningStart | ReasoningMessageStart
) -> Iterator[Event]:
    if not ids.is_open(start.message_id):
        name = ids.new_id(start.message_id)
        # For clients, a span and a message with the same id have the same owner.
        owner = state.segment.reasoning.get(name, state.tag(start.subagent_run_id))
        yield replace(start, message_id=name, subagent_run_id=owner)


def _encrypted_entity_id(state: StreamState, event: ReasoningEncryptedValue) -> str:
    if event.subtype == "tool-call":
        return state.calls.logged_id(ToolCallId(event.entity_id))
    reasoning_id = state.reasoning.logged_id(MessageId(event.entity_id))
    if reasoning_id in state.segment.reasoning:
        return reasoning_id
    return state.texts.logged_id(MessageId(event.entity_id))


def normalise_tool_call(state: StreamState, event: ToolCallEvent) -> Iterator[Event]:
    """Yield the events to log for a tool call `event`."""
    match event:
        case ToolCallStart():
            if not state.calls.is_open(event.tool_call_id):
                yield _tool_call_start(state, event)
        case ToolCallArgs() | ToolCallEnd():
            name = state.calls.logged_id(event.tool_call_id)
            if name in state.calls.open:
                yield replace(event, tool_call_id=name, subagent_run_id=state.calls.open[name])
        case ToolCallChunk():
            yield from _expand_tool_call_chunk(state, event)
        case ToolCallResult():
            name = state.calls.logged_id(event.tool_call_id)
            end = ToolCallEnd(tool_call_id=event.tool_call_id, timestamp=event.timestamp)
            yield from normalise_tool_call(state, end)
            yield replace(
                event,
                tool_call_id=name,
                message_id=state.texts.new_id(event.message_id),
                subagent_run_id=state.segment.calls.get(name, state.tag(event.subagent_run_id)),
            )
        case _:
            assert_never(event)


def _tool_call_start(state: StreamState, start: ToolCallStart) -> ToolCallStart:
    name = state.calls.new_id(start.tool_call_id)
    owner, parent = state.tag(start.subagent_run_id), start.parent_message_id
    message = state.segment.last_message.get(owner) if parent is UNSET else state.texts.logged_id(parent)
    if message is None:
        # Clients, too, put a call that names no message into a message with the id of the call.
        message = MessageId(name)
    # A call belongs to the owner of its message.
    owner = state.segment.messages.get(message, owner)
    return replace(start, tool_call_id=name, parent_message_id=message, subagent_run_id=owner)


def _expand_tool_call_chunk(state: StreamState, event: ToolCallChunk) -> Iterator[Event]:
    owner = state.tag(event.subagent_run_id)
    call_id = state.calls.latest(owner) if event.tool_call_id is UNSET else event.tool_call_id
    if call_id is None:
        return
    shared: dict[str, Any] = {"tool_call_id": call_id, "timestamp": event.timestamp, "metadata": event.metadata}
    opened = not state.calls.is_open(call_id)
    if opened:
        if event.tool_call_name is UNSET:
            return
        yield from reasoning_message_ends(state, owner=owner)
        start = ToolCallStart(
            tool_call_name=event.tool_call_name,
            parent_message_id=event.parent_message_id,
            subagent_run_id=owner,
            **shared,
        )
        yield _tool_call_start(state, start)
    if _has_content(event, opened=opened):
        args = ToolCallArgs(delta=event.delta or "", raw_event=event.raw_event, **shared)
        yield from normalise_tool_call(state, args)


def normalise_subagent(state: StreamState, event: SubagentEvent) -> Iterator[Event]:
    """Yield the events to log for a sub-agent `event`."""
    name = state.subagents.logged_id(event.subagent_run_id)
    match event:
        case SubagentStarted(parent_tool_call_id=call, parent_message_id=message):
            if name in state.subagents.open:
                return
            # A suspended sub-agent has not ended: it may continue in a later segment under its own id.
            if name not in state.suspended or name in state.segment.subagents:
                name = state.subagents.new_id(event.subagent_run_id)
            yield replace(
                event,
                subagent_run_id=name,
                parent_subagent_run_id=state.tag(event.parent_subagent_run_id),
                parent_tool_call_id=UNSET if call is UNSET else state.calls.logged_id(call),
                parent_message_id=UNSET if message is UNSET else state.texts.logged_id(message),
            )
        case SubagentFinished() | SubagentError():
            if name in state.subagents.open:
                yield from work_ends(state, owner=name)
                yield replace(event, subagent_run_id=name)
        case _:
            assert_never(event)
