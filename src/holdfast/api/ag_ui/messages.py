"""AG-UI messages: conversion to and from ours, and the point where a client's list leaves a thread's tree.

The base of a new run is the last message up to which the client's list and one chain match; what follows is input.
Messages that only the client has and that are not input (an assistant's, or of an unknown role) are skipped, and so
are those that the client never received: steering messages to an active run.

A client that was cut off lacks the end of an answer: it has the beginning of a message, one that was abandoned, or only
the first messages of the run, if any. Its run is continued at its end, because nobody chooses to fork in the middle of
an answer.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET

from holdfast.domain.content import Content, TextPart
from holdfast.domain.events import Custom, decode_event
from holdfast.domain.events import messages as wire
from holdfast.domain.events.custom import MessagesAbandoned, from_custom
from holdfast.domain.events.messages import AgUiContext
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.message import FAILED_METADATA_KEY, STEERING_METADATA_KEY, Message, NewMessage, Role
from holdfast.ports.log import EventLog, LoggedEvent, Messages

CONTEXT_METADATA_KEY: Final = "context"
"""Metadata key of a message that describes to the model what the client shows; it is not part of the conversation."""
HISTORY_PAGE_SIZE: Final = 1000
_ABANDONED_NAME: Final = b'"holdfast.abandoned"'

AgUiInputMessage: TypeAlias = wire.UserMessage | wire.SystemMessage | wire.DeveloperMessage
"""The messages that a client may start a run with."""

_ROLES: Final = {
    wire.UserMessage: Role.USER,
    wire.SystemMessage: Role.SYSTEM,
    wire.DeveloperMessage: Role.SYSTEM,
    wire.AssistantMessage: Role.ASSISTANT,
    wire.ToolMessage: Role.TOOL,
}


def same_message(theirs: wire.AgUiMessage, ours: Message) -> bool:
    """Return whether a client's message is ours.

    A client that disconnected early may have only the beginning of an assistant message. A tool result matches by its
    call, because clients choose its message id.
    """
    if _ROLES.get(type(theirs)) is not ours.role:
        return False
    match theirs:
        case wire.AssistantMessage(content=content):
            return content is UNSET or _comparable_text(ours.content).startswith(content)
        case wire.ToolMessage(tool_call_id=call):
            return call == ours.tool_call_id
        case wire.UserMessage() | wire.SystemMessage() | wire.DeveloperMessage():
            return _comparable_text(theirs.content) == _comparable_text(ours.content)
        case _:
            return False


def to_new_message(theirs: AgUiInputMessage, *, revises: MessageId | None = None) -> NewMessage:
    """Return a client's message as a domain message."""
    metadata = {} if theirs.metadata is UNSET else theirs.metadata
    role = _ROLES[type(theirs)]
    return NewMessage(id=theirs.id, role=role, content=theirs.content, revises=revises, metadata=metadata)


def context_message(context: Sequence[AgUiContext]) -> NewMessage:
    """Return a system message that describes to the model what the client shows."""
    lines = [f"- {each.description}: {each.value}" for each in context]
    text = "\n".join(["What the user currently sees in the application:", *lines])
    return NewMessage(role=Role.SYSTEM, content=text, metadata={CONTEXT_METADATA_KEY: True})


def to_ag_ui_messages(messages: Iterable[Message]) -> list[wire.AgUiMessage]:
    """Return messages as AG-UI messages."""
    return [_to_ag_ui_message(message) for message in messages if CONTEXT_METADATA_KEY not in message.metadata]


def _to_ag_ui_message(message: Message) -> wire.AgUiMessage:
    match message.role:
        case Role.USER:
            return wire.UserMessage(id=message.id, content=message.content)
        case Role.SYSTEM:
            return wire.SystemMessage(id=message.id, content=_comparable_text(message.content))
        case Role.ASSISTANT:
            calls = [
                wire.AgUiToolCall(
                    id=call.id,
                    function=wire.FunctionCall(name=call.name, arguments=msgspec.json.encode(call.arguments).decode()),
                )
                for call in message.tool_calls
            ]
            text = _comparable_text(message.content)
            return wire.AssistantMessage(id=message.id, content=text or UNSET, tool_calls=calls or UNSET)
        case Role.TOOL:
            assert message.tool_call_id is not None
            error = _comparable_text(message.content) if FAILED_METADATA_KEY in message.metadata else UNSET
            return wire.ToolMessage(
                id=message.id, content=message.content, tool_call_id=message.tool_call_id, error=error
            )


def _comparable_text(content: Content) -> str:
    """Return the text of a content that is only text, or any other content as JSON."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text
    return msgspec.json.encode(content).decode()


class BranchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The point in a thread's tree where a client's list leaves it, and the client's new messages."""

    run_id: RunId | None
    """The run of the last common message; null if there is none."""
    sequence: int | None
    """The message of that run to continue after; null means at its end."""
    new_messages: Sequence[wire.AgUiMessage]
    revised_ids: frozenset[MessageId]
    """Ids of new messages that the thread has already: these messages are revisions."""


async def find_branch_point(
    messages: Messages, events: EventLog, space: SpaceId, thread: ThreadId, theirs: Sequence[wire.AgUiMessage]
) -> BranchPoint:
    """Return the point where a client's list leaves the thread's tree. Each branch is read at most once."""
    stored_ids: set[MessageId] = set()
    seen: set[tuple[RunId, MessageId]] = set()
    index, matched, last = len(theirs) - 1, -1, None
    while index > matched:
        candidates = await messages.find_in_thread(space, thread, theirs[index].id)
        if candidates and isinstance(theirs[index], AgUiInputMessage):
            stored_ids.add(theirs[index].id)
        for ours in candidates:
            if (ours.run_id, ours.id) in seen or not same_message(theirs[index], ours):
                continue
            chain = [*await read_chain(messages, space, ours.run_id, before=ours.cursor), ours]
            seen.update((message.run_id, message.id) for message in chain)
            length, message = longest_match(theirs, chain)
            if length > matched:
                matched, last = length, message
        index -= 1
    new_messages = theirs[matched + 1 :]
    if last is None:
        return BranchPoint(run_id=None, sequence=None, new_messages=new_messages, revised_ids=frozenset(stored_ids))
    revised_ids = frozenset(stored_ids.intersection(each.id for each in new_messages))
    sequence, later = await _cut_sequence(messages, space, last)
    asks_on = any(isinstance(each, AgUiInputMessage) and each.id not in revised_ids for each in new_messages)
    lacks_only_answers = asks_on and not any(map(_is_turn, later))
    if not later or lacks_only_answers or await _was_cut_off(events, space, last, theirs[matched:]):
        sequence = None
    return BranchPoint(run_id=last.run_id, sequence=sequence, new_messages=new_messages, revised_ids=revised_ids)


async def read_chain(
    messages: Messages, space: SpaceId, run: RunId, *, before: int | MessageId | None = None
) -> list[Message]:
    """Return all messages on the chain of a run, up to a cursor if given."""
    chain: list[Message] = []
    while True:
        page = await messages.history(space, run, limit=HISTORY_PAGE_SIZE, before=before)
        chain = [*page, *chain]
        if len(page) < HISTORY_PAGE_SIZE:
            return chain
        before = page[0].cursor


def longest_match(theirs: Sequence[wire.AgUiMessage], chain: Sequence[Message]) -> tuple[int, Message | None]:
    """Return the last message up to which a client's list matches a chain, from their first common message."""
    places = {message.id: place for place, message in enumerate(chain)}
    matched, at = -1, -1
    for index, each in enumerate(theirs):
        place = places.get(each.id)
        if place is None and not isinstance(each, AgUiInputMessage):
            continue
        if place is None or not same_message(each, chain[place]):
            break
        if place <= at:
            matched = index  # a snapshot appends messages that a client lacked, so it may have this one too late
            continue
        if matched >= 0 and any(map(_is_turn, chain[at + 1 : place])):
            break  # the chain has a turn that the client does not have
        matched, at = index, place
    return matched, None if at < 0 else chain[at]


def _is_turn(message: Message) -> bool:
    """Return whether a client that followed the conversation must have this message."""
    hidden = message.metadata.keys() & {STEERING_METADATA_KEY, CONTEXT_METADATA_KEY}
    return message.role in (Role.USER, Role.SYSTEM) and not hidden


async def _cut_sequence(messages: Messages, space: SpaceId, message: Message) -> tuple[int | None, list[Message]]:
    """Return where to cut the run of a message, which is after the results of its tool calls, and what comes later."""
    own = await messages.of_run(space, message.run_id)
    at = next(index for index, each in enumerate(own) if each.id == message.id)
    while at + 1 < len(own) and own[at + 1].role is Role.TOOL:
        at += 1
    return own[at].sequence, own[at + 1 :]


async def _was_cut_off(events: EventLog, space: SpaceId, last: Message, tail: Sequence[wire.AgUiMessage]) -> bool:
    """Return whether a client that has only `tail` of the run of `last` has a part of an answer; `last` begins it."""
    first, *rest = tail
    if isinstance(first, wire.AssistantMessage) and first.id == last.id and _is_part(first, last):
        return True
    unknown = takewhile(lambda each: not isinstance(each, AgUiInputMessage), rest)
    ids = {each.id for each in unknown if isinstance(each, wire.AssistantMessage)}
    seq = 0
    while ids and (page := await events.after(space, last.run_id, seq=seq, types=["CUSTOM"])):
        if any(not ids.isdisjoint(_abandoned_ids(event)) for event in page if is_abandonment(event)):
            return True
        seq = page[-1].seq
    return False


def _is_part(theirs: wire.AssistantMessage, ours: Message) -> bool:
    """Return whether a client has only the beginning of an assistant message."""
    if (theirs.content or "") != _comparable_text(ours.content):
        return True
    calls = [] if theirs.tool_calls is UNSET else theirs.tool_calls
    complete = {each.id for each in calls if _is_json(each.function.arguments)}
    return any(call.id not in complete for call in ours.tool_calls)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def is_abandonment(event: LoggedEvent) -> bool:
    """Return whether an event says that messages are void."""
    return event.type == "CUSTOM" and _ABANDONED_NAME in event.data


def _abandoned_ids(event: LoggedEvent) -> Sequence[MessageId]:
    custom = decode_event(event.data)
    abandoned = from_custom(custom) if isinstance(custom, Custom) else None
    return abandoned.message_ids if isinstance(abandoned, MessagesAbandoned) else ()
