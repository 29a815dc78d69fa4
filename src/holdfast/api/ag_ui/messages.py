"""AG-UI messages: conversion to and from ours, and the point where a client's list leaves a thread's tree.

The base of a new run is the last message up to which the client's list and one chain match; what follows is input.
Messages that only the client has and that are not input (an assistant's, or of an unknown role) are skipped, and so
are those that it never had: steering sent to a run on its way.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET

from holdfast.domain.content import Content, TextPart
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import AgUiContext
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.message import FAILED_METADATA_KEY, STEERING_METADATA_KEY, Message, NewMessage, Role
from holdfast.ports.log import Messages

CONTEXT_METADATA_KEY: Final = "context"
"""The key in the metadata of a message that tells the model what the client shows, and that nobody said."""

AgUiInputMessage: TypeAlias = wire.UserMessage | wire.SystemMessage | wire.DeveloperMessage
"""What a client may begin a run with: all others are ours, or nobody's."""

_ROLES: Final = {
    wire.UserMessage: Role.USER,
    wire.SystemMessage: Role.SYSTEM,
    wire.DeveloperMessage: Role.SYSTEM,
    wire.AssistantMessage: Role.ASSISTANT,
    wire.ToolMessage: Role.TOOL,
}


def is_turn(message: Message) -> bool:
    """Say whether a client that followed the conversation must have a message of ours that somebody said."""
    told = message.metadata.keys() & {STEERING_METADATA_KEY, CONTEXT_METADATA_KEY}
    return message.role in (Role.USER, Role.SYSTEM) and not told


def same_message(theirs: wire.AgUiMessage, ours: Message) -> bool:
    """Say whether a client's message is ours.

    Of an assistant's a client may have only the beginning, because it left before the end. The result of a tool is the
    one of its call, whatever a client calls it.
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
    """Return what a client says as the domain knows it."""
    metadata = {} if theirs.metadata is UNSET else theirs.metadata
    role = _ROLES[type(theirs)]
    return NewMessage(id=theirs.id, role=role, content=theirs.content, revises=revises, metadata=metadata)


def context_message(context: Sequence[AgUiContext]) -> NewMessage:
    """Return what a client shows beside the conversation, for the model to know."""
    lines = [f"- {each.description}: {each.value}" for each in context]
    text = "\n".join(["What the person sees now, as the application tells it:", *lines])
    return NewMessage(role=Role.SYSTEM, content=text, metadata={CONTEXT_METADATA_KEY: True})


def to_ag_ui_messages(messages: Iterable[Message]) -> list[wire.AgUiMessage]:
    """Return messages as clients have them."""
    return [_to_ag_ui_message(message) for message in messages if CONTEXT_METADATA_KEY not in message.metadata]


def _to_ag_ui_message(message: Message) -> wire.AgUiMessage:
    match message.role:
        case Role.USER:
            return wire.UserMessage(id=message.id, content=message.content)
        case Role.SYSTEM:
            return wire.SystemMessage(id=message.id, content=_comparable_text(message.content))
        case Role.ASSISTANT:
            return _to_assistant_message(message)
        case Role.TOOL:
            assert message.tool_call_id is not None
            error = _comparable_text(message.content) if FAILED_METADATA_KEY in message.metadata else UNSET
            return wire.ToolMessage(
                id=message.id, content=message.content, tool_call_id=message.tool_call_id, error=error
            )


def _to_assistant_message(message: Message) -> wire.AssistantMessage:
    calls = [
        wire.AgUiToolCall(
            id=call.id,
            function=wire.FunctionCall(name=call.name, arguments=msgspec.json.encode(call.arguments).decode()),
        )
        for call in message.tool_calls
    ]
    text = _comparable_text(message.content)
    return wire.AssistantMessage(id=message.id, content=text or UNSET, tool_calls=calls or UNSET)


def _comparable_text(content: Content) -> str:
    """Return the words of a content where it has nothing else, or all of it as one text to be compared."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text
    return msgspec.json.encode(content).decode()


HISTORY_PAGE_SIZE = 1000


class BranchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client stands, and what it says there."""

    run_id: RunId | None
    """The run of the last message that both know; null where there is none."""
    sequence: int | None
    """After which message of that run; null means at its end."""
    new_messages: Sequence[wire.AgUiMessage]
    revised_ids: frozenset[MessageId]
    """Ids of what is said that other messages of the thread have: those are revised."""


async def find_branch_point(
    messages: Messages, space: SpaceId, thread: ThreadId, theirs: Sequence[wire.AgUiMessage]
) -> BranchPoint:
    """Return the place at which a client's list leaves what is known. Each branch is read at most once."""
    known: set[MessageId] = set()
    seen: set[tuple[RunId, MessageId]] = set()
    index, agreed, last = len(theirs) - 1, -1, None
    while index > agreed:
        candidates = await messages.find_in_thread(space, thread, theirs[index].id)
        if candidates and isinstance(theirs[index], AgUiInputMessage):
            known.add(theirs[index].id)
        for ours in candidates:
            if (ours.run_id, ours.id) in seen or not same_message(theirs[index], ours):
                continue
            chain = [*await read_chain_before(messages, space, ours), ours]
            seen.update((message.run_id, message.id) for message in chain)
            length, message = longest_match(theirs, chain)
            if length > agreed:
                agreed, last = length, message
        index -= 1
    said = theirs[agreed + 1 :]
    if last is None:
        return BranchPoint(run_id=None, sequence=None, new_messages=said, revised_ids=frozenset(known))
    revised = known.intersection(each.id for each in said)
    return BranchPoint(
        run_id=last.run_id,
        sequence=await _cut_sequence(messages, space, last),
        new_messages=said,
        revised_ids=frozenset(revised),
    )


async def read_chain_before(messages: Messages, space: SpaceId, message: Message) -> list[Message]:
    """Return everything on the chain of a message before it."""
    return await _read_back(messages, space, message.run_id, before=message.cursor)


async def read_chain(messages: Messages, space: SpaceId, run: RunId) -> list[Message]:
    """Return everything on the chain of a run."""
    return await _read_back(messages, space, run, before=None)


async def _read_back(ports: Messages, space: SpaceId, run: RunId, *, before: int | MessageId | None) -> list[Message]:
    found: list[Message] = []
    while True:
        page = await ports.history(space, run, limit=HISTORY_PAGE_SIZE, before=before)
        found = [*page, *found]
        if len(page) < HISTORY_PAGE_SIZE:
            return found
        before = page[0].cursor


def longest_match(theirs: Sequence[wire.AgUiMessage], chain: Sequence[Message]) -> tuple[int, Message | None]:
    """Return the last message of a client's list up to which it agrees with a chain, from the first that both know."""
    places = {message.id: place for place, message in enumerate(chain)}
    agreed, at = -1, -1
    for index, each in enumerate(theirs):
        place = places.get(each.id)
        if place is None and not isinstance(each, AgUiInputMessage):
            continue
        if place is None or place <= at or not same_message(each, chain[place]):
            break
        if agreed >= 0 and any(map(is_turn, chain[at + 1 : place])):
            break  # somebody said something that the client has not
        agreed, at = index, place
    return agreed, None if at < 0 else chain[at]


async def _cut_sequence(ports: Messages, space: SpaceId, message: Message) -> int | None:
    """Return where to cut the run of a message: behind it, and behind the results of what it asks for."""
    own = await ports.of_run(space, message.run_id)
    at = next(index for index, each in enumerate(own) if each.id == message.id)
    while at + 1 < len(own) and own[at + 1].role is Role.TOOL:
        at += 1
    return None if at + 1 == len(own) else own[at].sequence
