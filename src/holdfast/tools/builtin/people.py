"""The tools that ask a person: `ask_user` and `task_respond`.

The run waits on an interrupt; the response is the result of the call.
"""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.domain.validation import check_text
from holdfast.tools.content import as_text
from holdfast.tools.tool import InterruptResolved, InterruptWait, Preempted, ResumeCause, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, tool_spec, unexpected_resume

MAX_INTERRUPT_MESSAGE_CHARS: Final = 10_000


def ask_person(call: ToolContext, message: str, *, response_schema: dict[str, Json] | None = None) -> ToolResult:
    """Return the outcome of a call that waits until somebody answers `message`."""
    return ToolResult(
        wait=InterruptWait(
            interrupt=NewInterrupt(
                kind=InterruptKind.INPUT,
                id=InterruptId(derived_id("int", key=call.key)),
                message=check_text(message, field="message", max_chars=MAX_INTERRUPT_MESSAGE_CHARS),
                tool_call_id=call.id,
                response_schema=response_schema,
            )
        )
    )


def response_result(spec: ToolSpec, cause: ResumeCause) -> ToolResult:
    """Return the outcome of a call that asked, now that something came."""
    match cause:
        case InterruptResolved(response=None, expired=True):
            return ToolResult(content="nobody answered in time, and there is no default: go on as you think best")
        case InterruptResolved(response=default, expired=True):
            return ToolResult(content=f"nobody answered in time. The default is {as_text(default)}: go on with that")
        case InterruptResolved(response=response):
            return ToolResult(content=response)
        case Preempted():
            return ToolResult(content="not answered: the person said something else instead")
        case _:
            raise unexpected_resume(spec, cause)


MAX_OPTIONS: Final = 20

_OptionText = Annotated[str, Meta(min_length=1, max_length=300)]
_OptionList = Annotated[
    list[_OptionText], Meta(min_length=1, max_length=MAX_OPTIONS, extra_json_schema={"uniqueItems": True})
]


class AskUserArguments(ToolArguments, frozen=True, kw_only=True):
    """Ask the user a question and wait for the answer. Use it when you cannot go on without knowing."""

    question: Annotated[
        str, Meta(min_length=1, max_length=MAX_INTERRUPT_MESSAGE_CHARS, description="What to ask_person.")
    ]
    options: Annotated[
        _OptionList | None, Meta(description="The answers to choose from, where there are only these.")
    ] = None


async def _ask_user(call: ToolContext, arguments: AskUserArguments) -> ToolResult:
    schema = None if arguments.options is None else {"type": "string", "enum": arguments.options}
    return ask_person(call, arguments.question, response_schema=schema)


async def _resume_ask_user(call: ToolContext, arguments: AskUserArguments, cause: ResumeCause) -> ToolResult:
    return response_result(ASK_USER_SPEC, cause)


ASK_USER_SPEC: Final = tool_spec(AskUserArguments, name="ask_user", kind=ToolClass.TRANSACTIONAL)
ASK_USER: Final = TypedResumableTool(ASK_USER_SPEC, AskUserArguments, run=_ask_user, resume=_resume_ask_user)


class TaskRespondArguments(ToolArguments, frozen=True, kw_only=True):
    """Send a message to whoever gave you this task, and wait for the reply. To finish, just answer."""

    message: Annotated[
        str, Meta(min_length=1, max_length=MAX_INTERRUPT_MESSAGE_CHARS, description="What to say or to ask_person for.")
    ]


async def _task_respond(call: ToolContext, arguments: TaskRespondArguments) -> ToolResult:
    return ask_person(call, arguments.message)


async def _resume_task_respond(call: ToolContext, arguments: TaskRespondArguments, cause: ResumeCause) -> ToolResult:
    return response_result(TASK_RESPOND_SPEC, cause)


TASK_RESPOND_SPEC: Final = tool_spec(TaskRespondArguments, name="task_respond", kind=ToolClass.TRANSACTIONAL)
TASK_RESPOND: Final = TypedResumableTool(
    TASK_RESPOND_SPEC, TaskRespondArguments, run=_task_respond, resume=_resume_task_respond
)
