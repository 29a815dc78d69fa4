"""Plans of agents: read and edit the plan of a thread, or list those of a space."""

import msgspec

from holdfast.control.threads import newest_run, run_of_thread
from holdfast.domain.agent_task import AgentTask, agent_tasks
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.plan import PlanItem
from holdfast.domain.plan_edit import AddPlanItem, ChangePlanItem, NewPlanItem, PlanItemPatch
from holdfast.domain.run import Run
from holdfast.domain.thread import ThreadFilter
from holdfast.ports.runs import Plans, Runs, Threads


class ThreadTasks(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a thread plans, in order, as the plan stands in one run."""

    thread_id: ThreadId
    run_id: RunId | None
    items: list[PlanItem]


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run, in the words of agent tasks."""

    thread_id: ThreadId
    run_id: RunId | None
    tasks: list[AgentTask]


class PlanControl:
    """What can be done with plans. They branch with their thread: without a run, its newest one is meant."""

    def __init__(self, *, threads: Threads, runs: Runs, plans: Plans, by: str | None = None) -> None:
        self._by = by
        self._threads = threads
        self._runs = runs
        self._plans = plans

    async def tasks(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> ThreadTasks:
        """Return the items of a plan."""
        return await self._tasks(space, thread, await self._at(space, thread, run))

    async def plan(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> PlanView:
        """Return a plan in the words of agent tasks."""
        at = await self._at(space, thread, run)
        tasks = [] if at is None else agent_tasks(await self._plans.of_run(space, at.id))
        return PlanView(thread_id=thread, run_id=None if at is None else at.id, tasks=tasks)

    async def of_space(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[ThreadTasks]:
        """Return the plans of a space by thread, the one with the latest run first; those without any are left out."""
        threads = await self._threads.page(space, where=ThreadFilter(), limit=limit, cursor=cursor)
        plans = [await self.tasks(space, thread.id) for thread in threads.items if thread.last_run_at is not None]
        return Page(items=[plan for plan in plans if plan.items], next_cursor=threads.next_cursor)

    async def add(self, space: SpaceId, thread: ThreadId, item: NewPlanItem) -> PlanItem:
        """Add an item to the plan of the newest run."""
        return await self._plans.edit(space, thread, AddPlanItem(item=item), by=self._by)

    async def change(self, space: SpaceId, thread: ThreadId, task_id: int, patch: PlanItemPatch) -> PlanItem:
        """Change an open item of the plan of the newest run."""
        return await self._plans.edit(space, thread, ChangePlanItem(task_id=task_id, patch=patch), by=self._by)

    async def _at(self, space: SpaceId, thread: ThreadId, run: RunId | None) -> Run | None:
        if run is not None:
            return await run_of_thread(self._runs, space, thread, run)
        return await newest_run(self._threads, self._runs, space, thread)

    async def _tasks(self, space: SpaceId, thread: ThreadId, at: Run | None) -> ThreadTasks:
        if at is None:
            return ThreadTasks(thread_id=thread, run_id=None, items=[])
        return ThreadTasks(thread_id=thread, run_id=at.id, items=list((await self._plans.of_run(space, at.id)).items))
