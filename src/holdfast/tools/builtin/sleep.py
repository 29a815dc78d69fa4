"""`sleep`: the run waits for a time, and costs nothing meanwhile."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import TimerId
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.tool import ToolClass
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Arrival, Call, Disturbed, Outcome, Slept, TimeCame
from holdfast.tools.typed import WaitingTool, unexpected

LONGEST: Final = 7 * 24 * 3600


class Sleep(Arguments, frozen=True, kw_only=True):
    """Wait for a while, then go on. Waiting costs nothing. A message or the end of a task of yours wakes you early."""

    seconds: Annotated[float, Meta(gt=0, le=LONGEST, description="How long to wait, in seconds; at most 7 days.")]


async def _sleep(call: Call, asked: Sleep) -> Outcome:
    until = Millis(millis(call.now) + max(1, round(asked.seconds * 1000)))
    return Outcome(wait=Slept(timer_id=TimerId(derived_id("tmr", key=call.key)), until=instant(until)))


async def _wake(call: Call, asked: Sleep, arrival: Arrival) -> Outcome:
    match arrival:
        case TimeCame():
            return Outcome(content={"slept_seconds": asked.seconds})
        case Disturbed(because=because):
            return Outcome(content={"woke_early": True, "because": because})
        case _:
            raise unexpected(SPEC, arrival)


SPEC: Final = spec_of(Sleep, name="sleep", kind=ToolClass.TRANSACTIONAL)
SLEEP: Final = WaitingTool(SPEC, Sleep, run=_sleep, resume=_wake)
