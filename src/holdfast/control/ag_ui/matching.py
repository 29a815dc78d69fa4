"""Where in the tree of a thread a client stands.

The base of its run is the last message up to which its list and one chain agree; what follows is input. Messages that a
client has and we have not, because they are an assistant's or nobody's, are passed over. So are those that it never
had: what a run was told on its way.
"""

from collections.abc import Sequence

import msgspec

from holdfast.control.ag_ui.messages import Spoken, agrees, is_turn
from holdfast.domain.events import messages as wire
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.message import Message, Role
from holdfast.ports.log import Messages

PAGE = 1000


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client stands, and what it says there."""

    run_id: RunId | None
    """The run of the last message that both know; null where there is none."""
    sequence: int | None
    """After which message of that run; null means at its end."""
    said: Sequence[wire.AgUiMessage]
    known: frozenset[MessageId]
    """Ids of what is said that other messages of the thread have: those are revised."""


async def find_place(ports: Messages, space: SpaceId, thread: ThreadId, theirs: Sequence[wire.AgUiMessage]) -> Place:
    """Return the place at which a client's list leaves what is known. Each branch is read at most once."""
    known: set[MessageId] = set()
    seen: set[tuple[RunId, MessageId]] = set()
    index, agreed, last = len(theirs) - 1, -1, None
    while index > agreed:
        candidates = await ports.named(space, thread, theirs[index].id)
        if candidates and isinstance(theirs[index], Spoken):
            known.add(theirs[index].id)
        for ours in candidates:
            if (ours.run_id, ours.id) in seen or not agrees(theirs[index], ours):
                continue
            chain = [*await chain_before(ports, space, ours), ours]
            seen.update((message.run_id, message.id) for message in chain)
            length, message = agreement(theirs, chain)
            if length > agreed:
                agreed, last = length, message
        index -= 1
    said = theirs[agreed + 1 :]
    if last is None:
        return Place(run_id=None, sequence=None, said=said, known=frozenset(known))
    revised = known.intersection(each.id for each in said)
    return Place(run_id=last.run_id, sequence=await _cut(ports, space, last), said=said, known=frozenset(revised))


async def chain_before(ports: Messages, space: SpaceId, message: Message) -> list[Message]:
    """Return everything on the chain of a message before it."""
    return await _back_from(ports, space, message.run_id, before=message.place)


async def chain_of(ports: Messages, space: SpaceId, run: RunId) -> list[Message]:
    """Return everything on the chain of a run."""
    return await _back_from(ports, space, run, before=None)


async def _back_from(ports: Messages, space: SpaceId, run: RunId, *, before: int | MessageId | None) -> list[Message]:
    found: list[Message] = []
    while True:
        page = await ports.history(space, run, limit=PAGE, before=before)
        found = [*page, *found]
        if len(page) < PAGE:
            return found
        before = page[0].place


def agreement(theirs: Sequence[wire.AgUiMessage], chain: Sequence[Message]) -> tuple[int, Message | None]:
    """Return the last message of a client's list up to which it agrees with a chain, from the first that both know."""
    places = {message.id: place for place, message in enumerate(chain)}
    agreed, at = -1, -1
    for index, each in enumerate(theirs):
        place = places.get(each.id)
        if place is None and not isinstance(each, Spoken):
            continue
        if place is None or place <= at or not agrees(each, chain[place]):
            break
        if agreed >= 0 and any(map(is_turn, chain[at + 1 : place])):
            break  # somebody said something that the client has not
        agreed, at = index, place
    return agreed, None if at < 0 else chain[at]


async def _cut(ports: Messages, space: SpaceId, message: Message) -> int | None:
    """Return where to cut the run of a message: behind it, and behind the results of what it asks for."""
    own = await ports.of_run(space, message.run_id)
    at = next(index for index, each in enumerate(own) if each.id == message.id)
    while at + 1 < len(own) and own[at + 1].role is Role.TOOL:
        at += 1
    return None if at + 1 == len(own) else own[at].sequence
