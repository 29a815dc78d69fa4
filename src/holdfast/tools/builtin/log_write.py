"""`log_write`: a line in the log of the run, for whoever reads it later."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.events.custom import AgentLogged
from holdfast.domain.tool import ToolClass
from holdfast.domain.validation import check_text
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_MESSAGE: Final = 10_000


class LogWrite(Arguments, frozen=True, kw_only=True):
    """Write a line into the log of this run, for people who look at it later. It is no answer to the user."""

    message: Annotated[str, Meta(min_length=1, max_length=MAX_MESSAGE, description="The line to write.")]


async def _log(call: Call, asked: LogWrite) -> Outcome:
    message = check_text(asked.message, field="message", most=MAX_MESSAGE)
    return Outcome(content={"logged": True}, events=[AgentLogged(message=message)])


SPEC: Final = spec_of(LogWrite, name="log_write", kind=ToolClass.TRANSACTIONAL)
LOG_WRITE: Final = TypedTool(SPEC, LogWrite, run=_log)
