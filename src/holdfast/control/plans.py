"""Plans of agents: read and edit the plan of a thread, or list those of a space."""

import msgspec

from holdfast.control.threads import conversation_run
from holdfast.domain.agent_task import AgentTask, agent_tasks
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.plan import PlanItem
from holdfast.domain.plan_edit import AddPlanItem, ChangePlanItem, NewPlanItem, PlanItemPatch
from holdfast.domain.thread import ThreadFilter
from holdfast.ports.runs import Plans, Runs, Threads


class ThreadTasks(msgspec.Struct, frozen=True, kw_only=True):
    """The plan items of a thread in order, as of one run."""

    thread_id: ThreadId
    run_id: RunId | None
    items: list[PlanItem]


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run as agent tasks."""

    thread_id: ThreadId
    run_id: RunId | None
    tasks: list[AgentTask]


class PlanControl:
    """Commands and queries for plans. A plan branches with its thread; the run defaults to the newest one."""

    def __init__(self, *, threads: Threads, runs: Runs, plans: Plans, principal: str | None = None) -> None:
        """Record `principal` as the author of edits."""
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
        return ThreadTasks(thread_id=thread, run_id=found.id, items=list(plan.items))

    async def plan(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> PlanView:
        """Return a plan as agent tasks."""
        found = await conversation_run(self._threads, self._runs, space, thread, run)
        if found is None:
            return PlanView(thread_id=thread, run_id=None, tasks=[])
        return PlanView(thread_id=thread, run_id=found.id, tasks=agent_tasks(await self._plans.of_run(space, found.id)))

    async def of_space(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[ThreadTasks]:
        """Return the plans of a space by thread, latest run first; threads without a plan are omitted."""
        threads = await self._threads.page(space, where=ThreadFilter(), limit=limit, cursor=cursor)
        plans = [await self.tasks(space, thread.id) for thread in threads.items if thread.last_run_at is not None]
        return Page(items=[plan for plan in plans if plan.items], next_cursor=threads.next_cursor)

    async def add(self, space: SpaceId, thread: ThreadId, item: NewPlanItem) -> PlanItem:
        """Add an item to the plan of the newest run."""
        return await self._plans.edit(space, thread, AddPlanItem(item=item), by=self._principal)

    async def change(self, space: SpaceId, thread: ThreadId, task_id: int, patch: PlanItemPatch) -> PlanItem:
        """Change an open item of the plan of the newest run."""
        edit = ChangePlanItem(task_id=task_id, patch=patch)
        return await self._plans.edit(space, thread, edit, by=self._principal)
