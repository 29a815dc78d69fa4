"""Rules for tool calls: each is in a message, and its result follows its arguments."""

from collections.abc import Iterator
from typing import TypeVar, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.tool_calls import ToolCallEvent
from holdfast.domain.ids import MessageId
from holdfast.domain.stream.chunks import has_content
from holdfast.domain.stream.closing import thought_ends
from holdfast.domain.stream.names import Owner
from holdfast.domain.stream.state import State

Continuation = TypeVar("Continuation", bound=ToolCallArgs | ToolCallEnd)


def tool_call(state: State, event: ToolCallEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case ToolCallStart():
            if not state.calls.is_open(event.tool_call_id):
                yield _opener(state, event)
        case ToolCallArgs() | ToolCallEnd():
            if state.calls.is_open(event.tool_call_id):
                yield _continued(state, event)
        case ToolCallChunk():
            yield from _chunk(state, event)
        case ToolCallResult():
            yield from _result(state, event)
        case _:
            assert_never(event)


def _opener(state: State, start: ToolCallStart) -> ToolCallStart:
    name = state.calls.unused(start.tool_call_id)
    owner = state.tag(start.subagent_run_id)
    parent = _parent(state, start.parent_message_id, owner)
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


def _parent(state: State, said: MessageId | UnsetType, owner: Owner) -> MessageId | None:
    return state.segment.last_said.get(owner) if said is UNSET else state.texts.logged(said)


def _continued(state: State, event: Continuation) -> Continuation:
    name = state.calls.logged(event.tool_call_id)
    return replace(event, tool_call_id=name, subagent_run_id=state.calls.open[name])


def _chunk(state: State, event: ToolCallChunk) -> Iterator[Event]:
    owner = state.tag(event.subagent_run_id)
    said = state.calls.latest(owner) if event.tool_call_id is UNSET else event.tool_call_id
    if said is None:
        return
    opened = not state.calls.is_open(said)
    if opened:
        if event.tool_call_name is UNSET:
            return
        yield from thought_ends(state, owner=owner)
        start = ToolCallStart(
            tool_call_id=said,
            tool_call_name=event.tool_call_name,
            parent_message_id=event.parent_message_id,
            subagent_run_id=owner,
            timestamp=event.timestamp,
            metadata=event.metadata,
        )
        yield _opener(state, start)
    if has_content(event, opened=opened):
        args = ToolCallArgs(
            tool_call_id=said,
            delta=event.delta or "",
            timestamp=event.timestamp,
            metadata=event.metadata,
            raw_event=event.raw_event,
        )
        yield _continued(state, args)


def _result(state: State, event: ToolCallResult) -> Iterator[Event]:
    name = state.calls.logged(event.tool_call_id)
    if name in state.calls.open:
        yield _continued(state, ToolCallEnd(tool_call_id=name, timestamp=event.timestamp))
    yield replace(
        event,
        tool_call_id=name,
        message_id=state.texts.unused(event.message_id),
        subagent_run_id=state.segment.calls.get(name, state.tag(event.subagent_run_id)),
    )
