"""What the runtime says in a conversation that nobody else said. Nothing of it is stored."""

from functools import lru_cache

from holdfast.agent.context.sizes import Sized, Sizes
from holdfast.agent.prompt.texts import filled, text
from holdfast.domain.context import Compaction
from holdfast.domain.message import Role
from holdfast.domain.untrusted import fence_text


def earlier(compaction: Compaction, *, sizes: Sizes) -> Sized | None:
    """Return what is told of the messages that a summary stands for."""
    # It is the first message and not a system one, because some providers want a user to speak first.
    return sizes.note(Role.USER, _earlier(compaction.summary)) if compaction.summary else None


def left_out(*, sizes: Sizes) -> Sized:
    """Return the note that there was more."""
    return sizes.note(Role.USER, text("left_out"))


def nothing_said(*, sizes: Sizes) -> Sized:
    """Return what begins a conversation that nobody began."""
    return sizes.note(Role.USER, text("nothing_said"))


@lru_cache(maxsize=64)
def _earlier(summary: str) -> str:
    return filled("earlier", summary=fence_text(summary, tag="untrusted", source="summary"))
