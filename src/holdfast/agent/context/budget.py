"""How the window of a model is shared out.

    │ output │ margin │ system │ tools │ reminders │ conversation: all that is left │

System prompt, tools and reminders take what they need. The margin is there because lengths are estimates.
"""

from typing import Final

import msgspec

from holdfast.domain.errors import Invalid

OUTPUT: Final = 16_384
"""Kept free for an answer without a limit of its own; in a small window one part in eight."""
MARGIN: Final = 0.1
COMPACT_AT: Final = 0.8
"""A conversation that fills more of its share is compacted before it overflows."""
ENOUGH: Final = 0.6
"""A compaction without a model is enough if it leaves the conversation below this."""
KEPT: Final = 0.4
"""How much of its share the messages after a summary may fill."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, by what they are for."""

    usable: int
    """All that may be sent and answered, in our tokens."""
    output: int
    system: int
    tools: int
    reminders: int
    conversation: int


def share_out(window: int, *, system: int, tools: int, reminders: int = 0, output: int | None = None) -> Budget:
    """Return how `window` tokens are shared out.

    `output` is what an answer may have, if there is a limit.
    """
    if window <= 0:
        raise Invalid("the context window of a model must be more than 0 tokens", field="window")
    usable = int(window * (1 - MARGIN))
    answer = min(OUTPUT, usable // 8) if output is None else min(output, usable // 2)
    rest = usable - answer - system - tools - reminders
    return Budget(
        usable=usable, output=answer, system=system, tools=tools, reminders=reminders, conversation=max(rest, 0)
    )
