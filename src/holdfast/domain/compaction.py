"""The compaction of a conversation: what a model is told in place of its older messages.

    0 ────────────── through │ ──── start ▓▓▓▓▓▓▓▓ end ──────── newest
      the summary says it    │      a completed item of the plan: its conclusion says it

It is a value of the run, so it branches with the thread and outlives a crash. Messages themselves never change.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Message
from holdfast.domain.plan import Boundary

MOST_FAILED_TRIES: Final = 2
GROWTH: Final = 1.25
"""How much longer a conversation must have become before it is tried again."""


class Collapsed(msgspec.Struct, frozen=True, kw_only=True):
    """A completed item of the plan whose work is told by its conclusion."""

    task_id: int
    title: str
    conclusion: str
    start: Boundary
    end: Boundary


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for older messages. The tokens are those of the conversation at the last try."""

    through: int | None = None
    """The summary tells of all messages up to this sequence."""
    summary: str = ""
    collapsed: tuple[Collapsed, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    failed_tries: int = 0
    """How often in a row a summary freed nothing."""


NONE: Final = Compaction()


def read_compaction(value: Json) -> Compaction:
    """Return the compaction that is kept as `value`; a run without one has none."""
    if value is None:
        return NONE
    try:
        return msgspec.convert(value, Compaction)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the `compaction` of this run cannot be read: {exc}", value="compaction") from exc


def on_chain(compaction: Compaction, messages: Sequence[Message]) -> Compaction:
    """Return what of `compaction` is about the chain whose last messages these are."""
    if compaction.through is None and not compaction.collapsed:
        return compaction
    sequences = [message.sequence for message in messages if message.sequence is not None]
    if compaction.through is not None and not _may_be_on(sequences, compaction.through):
        return NONE
    spans = tuple(span for span in compaction.collapsed if _both_ends_on(sequences, span))
    return compaction if len(spans) == len(compaction.collapsed) else replace(compaction, collapsed=spans)


def failed_try(compaction: Compaction, *, before: int, after: int) -> Compaction:
    """Count a summary that freed nothing."""
    return replace(compaction, tokens_before=before, tokens_after=after, failed_tries=compaction.failed_tries + 1)


def given_up(compaction: Compaction, *, tokens: int) -> bool:
    """Whether there is no use in another try while the conversation has no more than `tokens`."""
    return compaction.failed_tries >= MOST_FAILED_TRIES and tokens < compaction.tokens_after * GROWTH


def _both_ends_on(sequences: Sequence[int], span: Collapsed) -> bool:
    return all(_may_be_on(sequences, end.message_sequence_num) for end in (span.start, span.end))


def _may_be_on(sequences: Sequence[int], sequence: int) -> bool:
    """Whether a message of that number is among these, or may be before them."""
    at = bisect_left(sequences, sequence)
    if at == len(sequences):
        return not sequences
    return sequences[at] == sequence or at == 0
