"""Rules for text messages: a start per message, an end per start, and no word lost."""

from collections.abc import Iterator
from typing import TypeVar, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
)
from holdfast.domain.events.text import TextEvent
from holdfast.domain.stream.chunks import has_content
from holdfast.domain.stream.closing import message_ends
from holdfast.domain.stream.state import State

Continuation = TypeVar("Continuation", bound=TextMessageContent | TextMessageEnd)


def text(state: State, event: TextEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case TextMessageStart():
            if not state.texts.is_open(event.message_id):
                yield _opener(state, event)
        case TextMessageContent():
            if not state.texts.is_open(event.message_id):
                yield _opener(state, _missing_start(state, event))
            yield _continued(state, event)
        case TextMessageEnd():
            if state.texts.is_open(event.message_id):
                yield _continued(state, event)
        case TextMessageChunk():
            yield from _chunk(state, event)
        case _:
            assert_never(event)


def _opener(state: State, start: TextMessageStart) -> TextMessageStart:
    return replace(
        start,
        message_id=state.texts.unused(start.message_id),
        subagent_run_id=state.tag(start.subagent_run_id),
    )


def _missing_start(state: State, event: TextMessageContent) -> TextMessageStart:
    # What was ended too early goes on in the same voice.
    earlier = state.texts.logged(event.message_id)
    role, name = state.speakers.get(earlier, (UNSET, UNSET))
    tag = event.subagent_run_id
    owner = state.segment.messages.get(earlier, UNSET) if tag is UNSET else tag
    return TextMessageStart(
        message_id=event.message_id, role=role, name=name, subagent_run_id=owner, timestamp=event.timestamp
    )


def _continued(state: State, event: Continuation) -> Continuation:
    name = state.texts.logged(event.message_id)
    return replace(event, message_id=name, subagent_run_id=state.texts.open[name])


def _chunk(state: State, event: TextMessageChunk) -> Iterator[Event]:
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
        yield _opener(state, start)
    if has_content(event, opened=opened):
        content = TextMessageContent(
            message_id=said,
            delta=event.delta or "",
            timestamp=event.timestamp,
            metadata=event.metadata,
            raw_event=event.raw_event,
        )
        yield _continued(state, content)
