"""The tools that wait: `ask_user` and `task_respond` for a person, `sleep` for a durable timer.

A waiting run holds no worker. The response of the person is the result of the call.
"""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, TimerId
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.domain.validation import check_text
from holdfast.tools.content import as_text
from holdfast.tools.tool import (
    InterruptResolved,
    InterruptWait,
    Preempted,
    ResumeCause,
    TimerFired,
    TimerWait,
    ToolContext,
    ToolResult,
)
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, tool_spec, unexpected_resume

MAX_INTERRUPT_MESSAGE_CHARS: Final = 10_000
MAX_OPTIONS: Final = 20
"""Answers that `ask_user` offers."""
MAX_SLEEP_SECONDS: Final = 7 * 24 * 3600

_OptionText = Annotated[str, Meta(min_length=1, max_length=300)]
_OptionList = Annotated[
    list[_OptionText], Meta(min_length=1, max_length=MAX_OPTIONS, extra_json_schema={"uniqueItems": True})
]


class AskUserArguments(ToolArguments, frozen=True, kw_only=True):
    """Ask the user a question and wait for the answer. Use it when you cannot go on without knowing."""

    question: Annotated[
        str, Meta(min_length=1, max_length=MAX_INTERRUPT_MESSAGE_CHARS, description="The question to ask.")
    ]
    options: Annotated[
        _OptionList | None, Meta(description="The answers to choose from, where there are only these.")
    ] = None


async def _ask_user(call: ToolContext, arguments: AskUserArguments) -> ToolResult:
    schema = None if arguments.options is None else {"type": "string", "enum": arguments.options}
    return _ask(call, arguments.question, response_schema=schema)


async def _resume_ask_user(call: ToolContext, arguments: AskUserArguments, cause: ResumeCause) -> ToolResult:
    return _response_result(_ASK_USER_SPEC, cause)


_ASK_USER_SPEC: Final = tool_spec(AskUserArguments, name="ask_user", kind=ToolClass.TRANSACTIONAL)
ASK_USER: Final = TypedResumableTool(_ASK_USER_SPEC, AskUserArguments, run=_ask_user, resume=_resume_ask_user)


class TaskRespondArguments(ToolArguments, frozen=True, kw_only=True):
    """Send a message to whoever gave you this task, and wait for the reply. To finish, just answer."""

    message: Annotated[
        str, Meta(min_length=1, max_length=MAX_INTERRUPT_MESSAGE_CHARS, description="What to say or to ask for.")
    ]


async def _task_respond(call: ToolContext, arguments: TaskRespondArguments) -> ToolResult:
    return _ask(call, arguments.message)


async def _resume_task_respond(call: ToolContext, arguments: TaskRespondArguments, cause: ResumeCause) -> ToolResult:
    return _response_result(_TASK_RESPOND_SPEC, cause)


_TASK_RESPOND_SPEC: Final = tool_spec(TaskRespondArguments, name="task_respond", kind=ToolClass.TRANSACTIONAL)
TASK_RESPOND: Final = TypedResumableTool(
    _TASK_RESPOND_SPEC, TaskRespondArguments, run=_task_respond, resume=_resume_task_respond
)


def _ask(call: ToolContext, message: str, *, response_schema: dict[str, Json] | None = None) -> ToolResult:
    interrupt = NewInterrupt(
        kind=InterruptKind.INPUT,
        id=InterruptId(derived_id("int", key=call.key)),
        message=check_text(message, field="message", max_chars=MAX_INTERRUPT_MESSAGE_CHARS),
        tool_call_id=call.id,
        response_schema=response_schema,
    )
    return ToolResult(wait=InterruptWait(interrupt=interrupt))


def _response_result(spec: ToolSpec, cause: ResumeCause) -> ToolResult:
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


class SleepArguments(ToolArguments, frozen=True, kw_only=True):
    """Wait for a while, then go on. Waiting costs nothing. A message or the end of a task of yours wakes you early."""

    seconds: Annotated[
        float, Meta(gt=0, le=MAX_SLEEP_SECONDS, description="How long to wait, in seconds; at most 7 days.")
    ]


async def _sleep(call: ToolContext, arguments: SleepArguments) -> ToolResult:
    until = Millis(millis(call.now) + max(1, round(arguments.seconds * 1000)))
    return ToolResult(wait=TimerWait(timer_id=TimerId(derived_id("tmr", key=call.key)), until=instant(until)))


async def _resume_sleep(call: ToolContext, arguments: SleepArguments, cause: ResumeCause) -> ToolResult:
    match cause:
        case TimerFired():
            return ToolResult(content={"slept_seconds": arguments.seconds})
        case Preempted(because=because):
            return ToolResult(content={"woke_early": True, "because": because})
        case _:
            raise unexpected_resume(_SLEEP_SPEC, cause)


_SLEEP_SPEC: Final = tool_spec(SleepArguments, name="sleep", kind=ToolClass.TRANSACTIONAL)
SLEEP: Final = TypedResumableTool(_SLEEP_SPEC, SleepArguments, run=_sleep, resume=_resume_sleep)
