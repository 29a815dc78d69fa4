"""Tools that ask a person: the run waits, and the answer is the result of the call."""

from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.tool import ToolSpec
from holdfast.domain.validation import check_text
from holdfast.tools.content import as_text
from holdfast.tools.tool import Answered, Arrival, Asked, Call, Disturbed, Outcome
from holdfast.tools.typed import unexpected

MAX_QUESTION: Final = 10_000


def ask(call: Call, message: str, *, response_schema: dict[str, Json] | None = None) -> Outcome:
    """Return the outcome of a call that waits until somebody answers `message`."""
    return Outcome(
        wait=Asked(
            interrupt=NewInterrupt(
                kind=InterruptKind.INPUT,
                id=InterruptId(derived_id("int", key=call.key)),
                message=check_text(message, field="message", most=MAX_QUESTION),
                tool_call_id=call.id,
                response_schema=response_schema,
            )
        )
    )


def answered(spec: ToolSpec, arrival: Arrival) -> Outcome:
    """Return the outcome of a call that asked, now that something came."""
    match arrival:
        case Answered(response=None, expired=True):
            return Outcome(content="nobody answered in time, and there is no default: go on as you think best")
        case Answered(response=default, expired=True):
            return Outcome(content=f"nobody answered in time. The default is {as_text(default)}: go on with that")
        case Answered(response=response):
            return Outcome(content=response)
        case Disturbed():
            return Outcome(content="not answered: the person said something else instead")
        case _:
            raise unexpected(spec, arrival)
