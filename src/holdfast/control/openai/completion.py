"""A completion: what an agent said until it had no more to say, or needed something."""

from collections.abc import Sequence

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.interrupt import Interrupt, InterruptKind
from holdfast.domain.limits import ZERO_USAGE, Usage
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run

BETWEEN = "\n\n"
"""What stands between two things that an agent says in one completion."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A completion that has begun: a part of the log of a run."""

    run: Run
    name: RunId
    """That of the run, or of the segment in which it goes on."""
    after: int = 0
    """The last event of the run that is no part of it."""
    said: int
    """The messages of the run that are no part of it."""
    used: Usage = ZERO_USAGE
    """What the run had used before."""
    replayed: bool = False


class WantedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the caller is asked to run. Its id is that of the question, which is the same wherever it is read."""

    id: InterruptId
    name: str
    arguments: Json


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    run: Run
    text: str
    question: str
    """The end of the text, if a person is asked something."""
    calls: list[WantedCall]
    usage: Usage


def completion_of(begun: Begun, run: Run, *, messages: Sequence[Message], questions: Sequence[Interrupt]) -> Completion:
    """Return the completion that ends where a run stands now, with all its messages and what it asks."""
    said = [each.content for each in messages[begun.said :] if each.role is Role.ASSISTANT]
    asked = [each.message or "" for each in questions if each.kind is not InterruptKind.CLIENT_TOOL]
    question = BETWEEN.join(each for each in asked if each)
    return Completion(
        run=run,
        text=BETWEEN.join(each for each in [*said, question] if isinstance(each, str) and each),
        question=question,
        calls=[_wanted(each) for each in questions if each.kind is InterruptKind.CLIENT_TOOL],
        usage=used_since(begun, run),
    )


def used_since(begun: Begun, run: Run) -> Usage:
    """Return what a run used since a completion began."""
    before, now = begun.used, run.usage
    return Usage(
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        cached_input_tokens=now.cached_input_tokens - before.cached_input_tokens,
        cost_usd=None if before.cost_usd is None or now.cost_usd is None else now.cost_usd - before.cost_usd,
    )


def _wanted(question: Interrupt) -> WantedCall:
    return WantedCall(id=question.id, name=question.metadata["tool"], arguments=question.arguments)
