"""Plans of agents: read and edit the plan of a thread."""

import msgspec

from holdfast.control.threads import conversation_run
from holdfast.domain.agent_task import AgentTask, agent_tasks
from holdfast.domain.errors import NotFound
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.plan import ThreadTask, thread_tasks
from holdfast.domain.plan_edit import AddPlanItem, ChangePlanItem, NewPlanItem, PlanItemPatch
from holdfast.ports.requests import KeyedRequests
from holdfast.ports.runs import Plans, Runs, Threads


class ThreadTasks(msgspec.Struct, frozen=True, kw_only=True):
    """The plan items of a thread in order, as of one run."""

    thread_id: ThreadId
    run_id: RunId | None
    items: list[ThreadTask]


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run as agent tasks."""

    thread_id: ThreadId
    run_id: RunId | None
    tasks: list[AgentTask]


class PlanControl:
    """Commands and queries for plans. A plan branches with its thread; the run defaults to the newest one."""

    def __init__(
        self, *, threads: Threads, runs: Runs, plans: Plans, requests: KeyedRequests, principal: str | None = None
    ) -> None:
        """Record `principal` as the author of edits."""
        self._requests = requests
        self._threads = threads
        self._runs = runs
        self._plans = plans
        self._principal = principal

    async def tasks(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> ThreadTasks:
        """Return the items of a plan."""
        found = await conversation_run(self._threads, self._runs, space, thread, run)
        if found is None:
            return ThreadTasks(thread_id=thread, run_id=None, items=[])
        plan = await self._plans.of_run(space, found.id)
        return ThreadTasks(thread_id=thread, run_id=found.id, items=thread_tasks(plan, found))

    async def task(self, space: SpaceId, thread: ThreadId, task_id: int, *, run: RunId | None = None) -> ThreadTask:
        """Return one item of a plan."""
        for task in (await self.tasks(space, thread, run=run)).items:
            if task.task_id == task_id:
                return task
        raise NotFound(f"the plan has no task {task_id}: use an id of the plan", task_id=task_id)

    async def plan(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> PlanView:
        """Return a plan as agent tasks."""
        found = await conversation_run(self._threads, self._runs, space, thread, run)
        if found is None:
            return PlanView(thread_id=thread, run_id=None, tasks=[])
        return PlanView(thread_id=thread, run_id=found.id, tasks=agent_tasks(await self._plans.of_run(space, found.id)))

    async def add(
        self, space: SpaceId, thread: ThreadId, item: NewPlanItem, *, request: KeyedRequest | None = None
    ) -> KeyedResult[ThreadTask]:
        """Add an item to the plan of the newest run."""
        edit = AddPlanItem(item=item)
        return await self._requests.once(
            space,
            request,
            kind=ThreadTask,
            create=lambda ports: ports.plans.edit(space, thread, edit, by=self._principal),
        )

    async def change(self, space: SpaceId, thread: ThreadId, task_id: int, patch: PlanItemPatch) -> ThreadTask:
        """Change an open item of the plan of the newest run."""
        edit = ChangePlanItem(task_id=task_id, patch=patch)
        return await self._plans.edit(space, thread, edit, by=self._principal)
