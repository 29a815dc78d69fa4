"""The `sleep` tool: the run waits on a durable timer and holds no worker meanwhile."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import TimerId
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.tool import ToolClass
from holdfast.tools.tool import Preempted, ResumeCause, TimerFired, TimerWait, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, tool_spec, unexpected_resume

MAX_SLEEP_SECONDS: Final = 7 * 24 * 3600


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
            raise unexpected_resume(SLEEP_SPEC, cause)


SLEEP_SPEC: Final = tool_spec(SleepArguments, name="sleep", kind=ToolClass.TRANSACTIONAL)
SLEEP: Final = TypedResumableTool(SLEEP_SPEC, SleepArguments, run=_sleep, resume=_resume_sleep)
