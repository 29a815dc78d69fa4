"""`task_respond`: the run tells whoever gave it its task something, and waits for the reply."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.tool import ToolClass
from holdfast.tools.asking import MAX_QUESTION, answered, ask
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Arrival, Call, Outcome
from holdfast.tools.typed import WaitingTool


class TaskRespond(Arguments, frozen=True, kw_only=True):
    """Send a message to whoever gave you this task, and wait for the reply. To finish, just answer."""

    message: Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION, description="What to say or to ask for.")]


async def _respond(call: Call, asked: TaskRespond) -> Outcome:
    return ask(call, asked.message)


async def _answered(call: Call, asked: TaskRespond, arrival: Arrival) -> Outcome:
    return answered(SPEC, arrival)


SPEC: Final = spec_of(TaskRespond, name="task_respond", kind=ToolClass.TRANSACTIONAL)
TASK_RESPOND: Final = WaitingTool(SPEC, TaskRespond, run=_respond, resume=_answered)
