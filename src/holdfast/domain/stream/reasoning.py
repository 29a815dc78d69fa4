"""Rules for reasoning: like those for text, with spans around them."""

from collections.abc import Iterator
from typing import TypeVar, assert_never

from msgspec import UNSET
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
)
from holdfast.domain.events.reasoning import ReasoningEvent, SpanEvent, ThoughtEvent
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.stream.chunks import has_content
from holdfast.domain.stream.closing import message_ends
from holdfast.domain.stream.names import Owner
from holdfast.domain.stream.state import State

Continuation = TypeVar("Continuation", bound=ReasoningMessageContent | ReasoningMessageEnd)


def reasoning(state: State, event: ReasoningEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case ReasoningStart() | ReasoningEnd():
            yield from _span(state, event)
        case ReasoningEncryptedValue():
            # Without a tag it belongs to whoever owns the thing that it is for.
            yield replace(event, entity_id=_entity(state, event), subagent_run_id=UNSET)
        case _:
            yield from _thought(state, event)


def _span(state: State, event: SpanEvent) -> Iterator[Event]:
    match event:
        case ReasoningStart():
            if not state.spans.is_open(event.message_id):
                name = state.spans.unused(event.message_id)
                owner = _owner(state, name, event.subagent_run_id)
                yield replace(event, message_id=name, subagent_run_id=owner)
        case ReasoningEnd():
            name = state.spans.logged(event.message_id)
            if name in state.spans.open:
                yield replace(event, message_id=name, subagent_run_id=state.spans.open[name])
        case _:
            assert_never(event)


def _thought(state: State, event: ThoughtEvent) -> Iterator[Event]:
    match event:
        case ReasoningMessageStart():
            if not state.thoughts.is_open(event.message_id):
                yield _opener(state, event)
        case ReasoningMessageContent():
            if not state.thoughts.is_open(event.message_id):
                yield _opener(state, _missing_start(state, event))
            yield _continued(state, event)
        case ReasoningMessageEnd():
            if state.thoughts.is_open(event.message_id):
                yield _continued(state, event)
        case ReasoningMessageChunk():
            yield from _chunk(state, event)
        case _:
            assert_never(event)


def _owner(state: State, name: MessageId, said: Owner) -> Owner:
    # A span and a message of the same id have the same owner in the eyes of a client.
    return state.segment.thoughts.get(name, state.tag(said))


def _opener(state: State, start: ReasoningMessageStart) -> ReasoningMessageStart:
    name = state.thoughts.unused(start.message_id)
    return replace(start, message_id=name, subagent_run_id=_owner(state, name, start.subagent_run_id))


def _missing_start(state: State, event: ReasoningMessageContent) -> ReasoningMessageStart:
    earlier = state.thoughts.logged(event.message_id)
    tag = event.subagent_run_id
    owner = state.segment.thoughts.get(earlier, UNSET) if tag is UNSET else tag
    return ReasoningMessageStart(message_id=event.message_id, subagent_run_id=owner, timestamp=event.timestamp)


def _continued(state: State, event: Continuation) -> Continuation:
    name = state.thoughts.logged(event.message_id)
    return replace(event, message_id=name, subagent_run_id=state.thoughts.open[name])


def _chunk(state: State, event: ReasoningMessageChunk) -> Iterator[Event]:
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
        yield _opener(state, start)
    if has_content(event, opened=opened):
        content = ReasoningMessageContent(
            message_id=said,
            delta=event.delta or "",
            timestamp=event.timestamp,
            metadata=event.metadata,
            raw_event=event.raw_event,
        )
        yield _continued(state, content)


def _entity(state: State, event: ReasoningEncryptedValue) -> str:
    if event.subtype == "tool-call":
        return state.calls.logged(ToolCallId(event.entity_id))
    thought = state.thoughts.logged(MessageId(event.entity_id))
    if thought in state.segment.thoughts:
        return thought
    return state.texts.logged(MessageId(event.entity_id))
