"""The outline of a conversation: what its compaction tells, and the units since."""

from collections.abc import Sequence

import msgspec

from holdfast.agent.context import notes
from holdfast.agent.context.collapse import collapse
from holdfast.agent.context.sizes import Sized, Sizes
from holdfast.agent.context.units import Unit, single, units
from holdfast.domain.context import Compaction, compaction_on_chain
from holdfast.domain.message import Message


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to be sent, if there is room for all of it."""

    compaction: Compaction
    """What of it is about this chain."""
    earlier: Sized | None
    units: list[Unit]
    goal_at: int | None
    """Which of them has the message that this turn answers, if one has."""
    goal: Unit | None
    """That message, if it is older than all of them."""
    covered: bool
    """Whether everything that is older than the units is told by the summary."""
    tokens: int


def outline(
    messages: Sequence[Message], *, whole: bool, goal: Message | None, compaction: Compaction, sizes: Sizes
) -> Outline:
    """Return the outline of the conversation that ends with `messages`."""
    usable = compaction_on_chain(compaction, messages)
    live = _since(messages, usable.through)
    there = collapse(units(live, sizes=sizes), usable.collapsed, sizes=sizes)
    at = None if goal is None else _place(goal, there)
    older = single(goal, sizes=sizes) if goal is not None and at is None else None
    earlier = notes.earlier(usable, sizes=sizes)
    return Outline(
        compaction=usable,
        earlier=earlier,
        units=there,
        goal_at=at,
        goal=older,
        covered=whole or len(live) < len(messages),
        tokens=sum([part.tokens for part in (*there, older, earlier) if part is not None]),
    )


def _since(messages: Sequence[Message], through: int | None) -> Sequence[Message]:
    if through is None:
        return messages
    for index, message in enumerate(messages):
        if message.sequence is None or message.sequence > through:
            return messages[index:]
    return ()


def _place(goal: Message, there: Sequence[Unit]) -> int | None:
    # It is near the end of most conversations.
    return next((index for index in range(len(there) - 1, -1, -1) if there[index].head.id == goal.id), None)
