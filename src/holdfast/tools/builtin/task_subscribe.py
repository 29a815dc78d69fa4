"""`task_subscribe`: the run is told when a task ends, or waits until it has."""

from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.ids import RunId, check_client_id
from holdfast.domain.tool import ToolClass
from holdfast.domain.untrusted import taint_source_name
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.replies import ended, reply
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Arrival, Call, Outcome, Subscribed
from holdfast.tools.typed import WaitingTool


class TaskSubscribe(Arguments, frozen=True, kw_only=True):
    """Be told when a task ends, with its result. With `wait` you do nothing else until then."""

    task_id: Annotated[
        str, Meta(min_length=1, max_length=128, description="The `task_id` or `run_id` that you were given.")
    ]
    wait: Annotated[bool, Meta(description="Whether to wait for its result now.")] = False


SPEC: Final = spec_of(TaskSubscribe, name="task_subscribe", kind=ToolClass.TRANSACTIONAL)


def task_subscribe(peers: SubagentRuns) -> WaitingTool[TaskSubscribe]:
    """Return the tool, which is told of the end of `peers`."""

    async def subscribe(call: Call, asked: TaskSubscribe) -> Outcome:
        target = RunId(check_client_id(asked.task_id, field="task_id"))
        task = await peers.subscribe(call.lease, target, waits=call.key if asked.wait else None)
        if task.status.terminal:
            told = reply(SPEC, f"task `{task.id}`", ended(task), goes_on={})
            tainted = await peers.taint(call.lease, task.id)
            return replace(told, untrusted=taint_source_name("run", task.id)) if tainted else told
        if asked.wait:
            return Outcome(wait=Subscribed(run_id=task.id))
        return Outcome(content={"task_id": task.id, "status": str(task.status), "subscribed": True})

    return WaitingTool(SPEC, TaskSubscribe, run=subscribe, resume=_ended)


async def _ended(call: Call, asked: TaskSubscribe, arrival: Arrival) -> Outcome:
    goes_on = {"task_id": asked.task_id}
    return reply(SPEC, f"task `{asked.task_id}`", arrival, goes_on=goes_on)
