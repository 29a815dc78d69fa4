"""The rules that make events legal: one function per family (text, reasoning, tool calls, sub-agents).

Text: one start per message, one end per start, no delta lost. Reasoning: the same, with spans. Tool calls: each is in a
message, and its result follows its arguments. Sub-agents: each starts and ends once, under an id of its own.
"""

from collections.abc import Iterator
from typing import TypeAlias, TypeVar, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.ag_ui import (
    ReasoningEvent,
    ReasoningMessageEvent,
    ReasoningSpanEvent,
    SubagentEvent,
    TextEvent,
    ToolCallEvent,
)
from holdfast.domain.ids import MessageId, RunId, ToolCallId
from holdfast.domain.stream.state import EventOwner, StreamState, message_ends, reasoning_message_ends, work_ends

MessageChunk: TypeAlias = TextMessageChunk | ToolCallChunk | ReasoningMessageChunk


def has_content(chunk: MessageChunk, *, opened: bool) -> bool:
    """Tell whether `chunk` says more than the start that it was `opened` with."""
    if chunk.delta is not UNSET or chunk.raw_event is not UNSET:
        return True
    return chunk.metadata is not UNSET and not opened


_TextContinuation = TypeVar("_TextContinuation", bound=TextMessageContent | TextMessageEnd)


def normalise_text(state: StreamState, event: TextEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case TextMessageStart():
            if not state.texts.is_open(event.message_id):
                yield _text_start(state, event)
        case TextMessageContent():
            if not state.texts.is_open(event.message_id):
                yield _text_start(state, _missing_text_start(state, event))
            yield _continue_text(state, event)
        case TextMessageEnd():
            if state.texts.is_open(event.message_id):
                yield _continue_text(state, event)
        case TextMessageChunk():
            yield from _expand_text_chunk(state, event)
        case _:
            assert_never(event)


def _text_start(state: StreamState, start: TextMessageStart) -> TextMessageStart:
    return replace(
        start,
        message_id=state.texts.new_id(start.message_id),
        subagent_run_id=state.tag(start.subagent_run_id),
    )


def _missing_text_start(state: StreamState, event: TextMessageContent) -> TextMessageStart:
    # What was ended too early goes on in the same voice.
    earlier = state.texts.logged_id(event.message_id)
    role, name = state.speakers.get(earlier, (UNSET, UNSET))
    tag = event.subagent_run_id
    owner = state.segment.messages.get(earlier, UNSET) if tag is UNSET else tag
    return TextMessageStart(
        message_id=event.message_id, role=role, name=name, subagent_run_id=owner, timestamp=event.timestamp
    )


def _continue_text(state: StreamState, event: _TextContinuation) -> _TextContinuation:
    name = state.texts.logged_id(event.message_id)
    return replace(event, message_id=name, subagent_run_id=state.texts.open[name])


def _expand_text_chunk(state: StreamState, event: TextMessageChunk) -> Iterator[Event]:
    owner = state.tag(event.subagent_run_id)
    said = state.texts.latest(owner) if event.message_id is UNSET else event.message_id
    if said is None:
        return
    opened = not state.texts.is_open(said)
    if opened:
        yield from message_ends(state, owner=owner)
        start = TextMessageStart(
            message_id=said,
            role=event.role,
            name=event.name,
            subagent_run_id=owner,
            timestamp=event.timestamp,
            metadata=event.metadata,
        )
        yield _text_start(state, start)
    if has_content(event, opened=opened):
        content = TextMessageContent(
            message_id=said,
            delta=event.delta or "",
            timestamp=event.timestamp,
            metadata=event.metadata,
            raw_event=event.raw_event,
        )
        yield _continue_text(state, content)


_ReasoningContinuation = TypeVar("_ReasoningContinuation", bound=ReasoningMessageContent | ReasoningMessageEnd)


def normalise_reasoning(state: StreamState, event: ReasoningEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case ReasoningStart() | ReasoningEnd():
            yield from _normalise_span(state, event)
        case ReasoningEncryptedValue():
            # Without a tag it belongs to whoever owns the thing that it is for.
            yield replace(event, entity_id=_encrypted_entity_id(state, event), subagent_run_id=UNSET)
        case _:
            yield from _normalise_reasoning_message(state, event)


def _normalise_span(state: StreamState, event: ReasoningSpanEvent) -> Iterator[Event]:
    match event:
        case ReasoningStart():
            if not state.spans.is_open(event.message_id):
                name = state.spans.new_id(event.message_id)
                owner = _reasoning_owner(state, name, event.subagent_run_id)
                yield replace(event, message_id=name, subagent_run_id=owner)
        case ReasoningEnd():
            name = state.spans.logged_id(event.message_id)
            if name in state.spans.open:
                yield replace(event, message_id=name, subagent_run_id=state.spans.open[name])
        case _:
            assert_never(event)


def _normalise_reasoning_message(state: StreamState, event: ReasoningMessageEvent) -> Iterator[Event]:
    match event:
        case ReasoningMessageStart():
            if not state.thoughts.is_open(event.message_id):
                yield _reasoning_start(state, event)
        case ReasoningMessageContent():
            if not state.thoughts.is_open(event.message_id):
                yield _reasoning_start(state, _missing_reasoning_start(state, event))
            yield _continue_reasoning(state, event)
        case ReasoningMessageEnd():
            if state.thoughts.is_open(event.message_id):
                yield _continue_reasoning(state, event)
        case ReasoningMessageChunk():
            yield from _expand_reasoning_chunk(state, event)
        case _:
            assert_never(event)


def _reasoning_owner(state: StreamState, name: MessageId, said: EventOwner) -> EventOwner:
    # A span and a message of the same id have the same owner in the eyes of a client.
    return state.segment.thoughts.get(name, state.tag(said))


def _reasoning_start(state: StreamState, start: ReasoningMessageStart) -> ReasoningMessageStart:
    name = state.thoughts.new_id(start.message_id)
    return replace(start, message_id=name, subagent_run_id=_reasoning_owner(state, name, start.subagent_run_id))


def _missing_reasoning_start(state: StreamState, event: ReasoningMessageContent) -> ReasoningMessageStart:
    earlier = state.thoughts.logged_id(event.message_id)
    tag = event.subagent_run_id
    owner = state.segment.thoughts.get(earlier, UNSET) if tag is UNSET else tag
    return ReasoningMessageStart(message_id=event.message_id, subagent_run_id=owner, timestamp=event.timestamp)


def _continue_reasoning(state: StreamState, event: _ReasoningContinuation) -> _ReasoningContinuation:
    name = state.thoughts.logged_id(event.message_id)
    return replace(event, message_id=name, subagent_run_id=state.thoughts.open[name])


def _expand_reasoning_chunk(state: StreamState, event: ReasoningMessageChunk) -> Iterator[Event]:
    owner = state.tag(event.subagent_run_id)
    said = state.thoughts.latest(owner) if event.message_id is UNSET else event.message_id
    if said is None:
        return
    opened = not state.thoughts.is_open(said)
    if opened:
        yield from message_ends(state, owner=owner)
        start = ReasoningMessageStart(
            message_id=said, subagent_run_id=owner, timestamp=event.timestamp, metadata=event.metadata
        )
        yield _reasoning_start(state, start)
    if has_content(event, opened=opened):
        content = ReasoningMessageContent(
            message_id=said,
            delta=event.delta or "",
            timestamp=event.timestamp,
            metadata=event.metadata,
            raw_event=event.raw_event,
        )
        yield _continue_reasoning(state, content)


def _encrypted_entity_id(state: StreamState, event: ReasoningEncryptedValue) -> str:
    if event.subtype == "tool-call":
        return state.calls.logged_id(ToolCallId(event.entity_id))
    thought = state.thoughts.logged_id(MessageId(event.entity_id))
    if thought in state.segment.thoughts:
        return thought
    return state.texts.logged_id(MessageId(event.entity_id))


_ToolCallContinuation = TypeVar("_ToolCallContinuation", bound=ToolCallArgs | ToolCallEnd)


def normalise_tool_call(state: StreamState, event: ToolCallEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case ToolCallStart():
            if not state.calls.is_open(event.tool_call_id):
                yield _tool_call_start(state, event)
        case ToolCallArgs() | ToolCallEnd():
            if state.calls.is_open(event.tool_call_id):
                yield _continue_tool_call(state, event)
        case ToolCallChunk():
            yield from _expand_tool_call_chunk(state, event)
        case ToolCallResult():
            yield from _tool_call_result(state, event)
        case _:
            assert_never(event)


def _tool_call_start(state: StreamState, start: ToolCallStart) -> ToolCallStart:
    name = state.calls.new_id(start.tool_call_id)
    owner = state.tag(start.subagent_run_id)
    parent = _parent_message(state, start.parent_message_id, owner)
    if parent is None:
        # Where a client, too, puts a call that names no message.
        parent = MessageId(name)
    return replace(
        start,
        tool_call_id=name,
        parent_message_id=parent,
        # A call belongs to whoever owns the message that it is in.
        subagent_run_id=state.segment.messages.get(parent, owner),
    )


def _parent_message(state: StreamState, said: MessageId | UnsetType, owner: EventOwner) -> MessageId | None:
    return state.segment.last_said.get(owner) if said is UNSET else state.texts.logged_id(said)


def _continue_tool_call(state: StreamState, event: _ToolCallContinuation) -> _ToolCallContinuation:
    name = state.calls.logged_id(event.tool_call_id)
    return replace(event, tool_call_id=name, subagent_run_id=state.calls.open[name])


def _expand_tool_call_chunk(state: StreamState, event: ToolCallChunk) -> Iterator[Event]:
    owner = state.tag(event.subagent_run_id)
    said = state.calls.latest(owner) if event.tool_call_id is UNSET else event.tool_call_id
    if said is None:
        return
    opened = not state.calls.is_open(said)
    if opened:
        if event.tool_call_name is UNSET:
            return
        yield from reasoning_message_ends(state, owner=owner)
        start = ToolCallStart(
            tool_call_id=said,
            tool_call_name=event.tool_call_name,
            parent_message_id=event.parent_message_id,
            subagent_run_id=owner,
            timestamp=event.timestamp,
            metadata=event.metadata,
        )
        yield _tool_call_start(state, start)
    if has_content(event, opened=opened):
        args = ToolCallArgs(
            tool_call_id=said,
            delta=event.delta or "",
            timestamp=event.timestamp,
            metadata=event.metadata,
            raw_event=event.raw_event,
        )
        yield _continue_tool_call(state, args)


def _tool_call_result(state: StreamState, event: ToolCallResult) -> Iterator[Event]:
    name = state.calls.logged_id(event.tool_call_id)
    if name in state.calls.open:
        yield _continue_tool_call(state, ToolCallEnd(tool_call_id=name, timestamp=event.timestamp))
    yield replace(
        event,
        tool_call_id=name,
        message_id=state.texts.new_id(event.message_id),
        subagent_run_id=state.segment.calls.get(name, state.tag(event.subagent_run_id)),
    )


def normalise_subagent(state: StreamState, event: SubagentEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case SubagentStarted():
            if not state.subagents.is_open(event.subagent_run_id):
                yield _subagent_start(state, event)
        case SubagentFinished() | SubagentError():
            name = state.subagents.logged_id(event.subagent_run_id)
            if name in state.subagents.open:
                yield from work_ends(state, owner=name)
                yield replace(event, subagent_run_id=name)
        case _:
            assert_never(event)


def _subagent_start(state: StreamState, event: SubagentStarted) -> SubagentStarted:
    call, message = event.parent_tool_call_id, event.parent_message_id
    return replace(
        event,
        subagent_run_id=_subagent_id(state, event.subagent_run_id),
        parent_subagent_run_id=state.tag(event.parent_subagent_run_id),
        parent_tool_call_id=UNSET if call is UNSET else state.calls.logged_id(call),
        parent_message_id=UNSET if message is UNSET else state.texts.logged_id(message),
    )


def _subagent_id(state: StreamState, said: RunId) -> RunId:
    # One that was suspended has not ended: it may go on in a later segment, as itself.
    logged = state.subagents.logged_id(said)
    if logged in state.suspended and logged not in state.segment.subagents:
        return logged
    return state.subagents.new_id(said)
