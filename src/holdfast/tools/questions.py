"""What tools that run elsewhere have asked: the call waits for a person, and goes on there with the answer.

The question is kept in the value `questions` of the run until the call settles, since the tool needs it back.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, ToolCallId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.tool import ToolInterrupt, ToolReply
from holdfast.tools.tool import Asked, Call, Outcome
from holdfast.tools.values import read_value, written

VALUE: Final = "questions"


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """What calls of one run have asked. Values go over to other runs, but questions do not."""

    run_id: RunId
    calls: dict[ToolCallId, ToolInterrupt] = {}


def question_of(call: Call) -> ToolInterrupt | None:
    """Return what a call has asked."""
    kept = read_value(call, VALUE, default=Questions(run_id=call.run.id))
    return kept.calls.get(call.id) if kept.run_id == call.run.id else None


def told(call: Call, reply: ToolReply) -> Outcome:
    """Return what a tool replied as an outcome: with a question the call waits."""
    if reply.question is None:
        forgotten = {VALUE: _keeping(call, None)} if call.values.get(VALUE) is not None else {}
        return Outcome(
            content=reply.content,
            failed=reply.failed,
            unknown=reply.unknown,
            untrusted=reply.untrusted,
            revisions=forgotten,
        )
    interrupt = NewInterrupt(
        kind=InterruptKind.INPUT,
        id=InterruptId(derived_id("int", key=call.key)),
        message=reply.question.message,
        tool_call_id=call.id,
        response_schema=reply.question.response_schema,
    )
    return Outcome(wait=Asked(interrupt=interrupt), revisions={VALUE: _keeping(call, reply.question)})


def _keeping(call: Call, question: ToolInterrupt | None) -> Callable[[Json], Json]:
    """Return what puts a question in the place of the one that a call asked before."""

    def keep(value: Json) -> Json:
        kept = None if value is None else msgspec.convert(value, Questions)
        others = kept.calls if kept is not None and kept.run_id == call.run.id else {}
        calls = {name: asked for name, asked in others.items() if name != call.id}
        if question is not None:
            calls[call.id] = question
        return written(Questions(run_id=call.run.id, calls=calls)) if calls else None

    return keep
