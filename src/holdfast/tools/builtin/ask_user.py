"""`ask_user`: the run waits for a person, whose answer is the result."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.tool import ToolClass
from holdfast.tools.asking import MAX_QUESTION, answered, ask
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Arrival, Call, Outcome
from holdfast.tools.typed import WaitingTool

MAX_OPTIONS: Final = 20

_Option = Annotated[str, Meta(min_length=1, max_length=300)]
_Options = Annotated[list[_Option], Meta(min_length=1, max_length=MAX_OPTIONS, extra_json_schema={"uniqueItems": True})]


class AskUser(Arguments, frozen=True, kw_only=True):
    """Ask the user a question and wait for the answer. Use it when you cannot go on without knowing."""

    question: Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION, description="What to ask.")]
    options: Annotated[_Options | None, Meta(description="The answers to choose from, where there are only these.")] = (
        None
    )


async def _ask(call: Call, asked: AskUser) -> Outcome:
    schema = None if asked.options is None else {"type": "string", "enum": asked.options}
    return ask(call, asked.question, response_schema=schema)


async def _answered(call: Call, asked: AskUser, arrival: Arrival) -> Outcome:
    return answered(SPEC, arrival)


SPEC: Final = spec_of(AskUser, name="ask_user", kind=ToolClass.TRANSACTIONAL)
ASK_USER: Final = WaitingTool(SPEC, AskUser, run=_ask, resume=_answered)
