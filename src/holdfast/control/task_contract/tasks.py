"""Tasks in the hands of those who know the contract. All of them are in one space."""

from collections.abc import Sequence

import msgspec

from holdfast.control.feeds.feeds import Feeds
from holdfast.control.feeds.follower import Follower
from holdfast.control.runs import RunControl
from holdfast.control.task_contract.answers import answer_to
from holdfast.control.task_contract.context import TaskContext, newest_context
from holdfast.control.task_contract.deletion import TaskDeletion
from holdfast.control.task_contract.errors import (
    AgentNotFound,
    ModeNotSupported,
    TaskAlreadyTerminal,
    TaskInvalid,
    TaskNotFound,
    TaskNotWaiting,
)
from holdfast.control.task_contract.events import TaskEvents
from holdfast.control.task_contract.history import TaskHistory
from holdfast.control.task_contract.ids import run_id_of, task_id_of
from holdfast.control.task_contract.task import PHASES, ListedTask, Task, TaskStatus, detailed, listed, status_of
from holdfast.domain.errors import AlreadyAnswered, HoldfastError, IllegalMove, NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import MAX_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Priority, Run
from holdfast.domain.thread import NewThread, derive_title
from holdfast.ports.log import Contexts, EventLog, Steps
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import RunFilter, Runs
from holdfast.ports.workspace import Agents


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list."""

    agent_name: str | None = None
    status: TaskStatus | None = None
    priority: Priority | None = None
    tag: str | None = None


class TaskControl:
    """What can be done with tasks."""

    def __init__(
        self,
        *,
        space: SpaceId,
        control: RunControl,
        runs: Runs,
        events: EventLog,
        steps: Steps,
        contexts: Contexts,
        interrupts: Interrupts,
        agents: Agents,
        feeds: Feeds,
    ) -> None:
        self._space = space
        self._control = control
        self._runs = runs
        self._steps = steps
        self._contexts = contexts
        self._interrupts = interrupts
        self._agents = agents
        self._feeds = feeds
        self._history = TaskHistory(events)
        self._deletion = TaskDeletion(runs=runs, control=control)

    async def create(
        self, agent: str, text: str, *, limits: Limits, priority: Priority, tags: list[str], key: str | None
    ) -> CreatedRun:
        """Give an agent a task."""
        new = NewRun(
            thread=NewThread(title=derive_title(text), agent_type=agent),
            messages=[NewMessage(role=Role.USER, content=text)],
            input=text,
            mode=Mode.TASK,
            agent_type=agent,
            priority=priority,
            tags=tags,
            limits=limits,
            idempotency_key=key,
        )
        try:
            return await self._control.start(self._space, new)
        except HoldfastError:
            self._check_agent(agent)  # not before: a task that was given already is returned without its agent
            raise

    async def page(self, where: TaskFilter, *, limit: int, cursor: str | None) -> Page[ListedTask]:
        """Return tasks, the newest first; a page may be longer than the store's own."""
        found: list[Run] = []
        at = None if cursor is None else run_id_of(cursor)
        filters = RunFilter(
            mode=Mode.TASK,
            phase=None if where.status is None else PHASES[where.status],
            priority=where.priority,
            agent_type=where.agent_name,
            tag=where.tag,
        )
        while True:
            most = min(limit - len(found), MAX_PAGE_SIZE)
            page = await self._store_page(filters, limit=most, cursor=at)
            found += page.items
            at = None if page.next_cursor is None else RunId(page.next_cursor)
            if at is None or len(found) == limit:
                return Page(items=[listed(run) for run in found], next_cursor=at and task_id_of(at))

    async def run(self, name: str) -> Run:
        """Return the run that a task is."""
        try:
            run = await self._runs.get(self._space, run_id_of(name))
        except NotFound as exc:
            raise _not_found(name) from exc
        if run.mode is not Mode.TASK:
            raise _not_found(name)
        return run

    async def get(self, name: str) -> Task:
        """Return a task."""
        run = await self.run(name)
        return detailed(run, event_count=await self._history.count(run))

    async def events(self, name: str, *, since: int, limit: int) -> TaskEvents:
        """Return up to `limit` events of a task with an id above `since`."""
        run = await self.run(name)
        told = [event for event in await self._history.events(run) if event.id > since]
        more = told[limit - 1].id if len(told) > limit else None
        return TaskEvents(task_id=task_id_of(run.id), events=told[:limit], next_cursor=more)

    async def follow(self, name: str, *, after: int) -> tuple[Run, Follower]:
        """Follow the log of a task from its beginning, for somebody who has its events up to `after`."""
        run = await self.run(name)
        if after > run.last_event_seq:
            raise TaskInvalid(f"there is no event {after} yet", last_event_id=after, last=run.last_event_seq)
        return run, await self._feeds.run(self._space, run.id)

    async def respond(self, name: str, message: str) -> None:
        """Answer what a task asks; of several questions the oldest."""
        run = await self.run(name)
        if status_of(run) is not TaskStatus.WAITING:
            raise _not_waiting(name, await self._asked_below(run))
        question = next(iter(await self._interrupts.asked_by(self._space, run.id)), None)
        if question is None:  # somebody else was faster
            raise _not_waiting(name)
        response = answer_to(question, message)
        try:
            await self._control.respond(self._space, run.id, response, interrupt=question.id, digest=question.digest)
        except (AlreadyAnswered, NotFound) as exc:
            raise _not_waiting(name) from exc

    async def cancel(self, name: str) -> None:
        """End a task and all below it."""
        run = await self.run(name)
        try:
            await self._control.cancel(self._space, run.id)
        except IllegalMove as exc:
            raise TaskAlreadyTerminal(f"task `{name}` has ended", id=name) from exc

    async def delete(self, name: str, *, force: bool) -> None:
        """Remove a task with all that belongs to it; an active one only with `force`, which ends it first."""
        run = await self.run(name)
        try:
            await self._deletion.delete(run, force=force)
        except NotFound as exc:  # somebody else was faster
            raise _not_found(name) from exc

    async def context(self, name: str) -> TaskContext | None:
        """Return what the model was told in the newest iteration; nothing before the first."""
        return await newest_context(self._contexts, self._steps, await self.run(name))

    async def _store_page(self, where: RunFilter, *, limit: int, cursor: RunId | None) -> Page[Run]:
        try:
            return await self._runs.page(self._space, where=where, limit=limit, cursor=cursor)
        except NotFound as exc:
            raise TaskInvalid("`cursor` must be the id of the last task of the page before", field="cursor") from exc

    async def _asked_below(self, run: Run) -> list[Interrupt]:
        asked = await self._interrupts.of_run(self._space, run.id, below=True)
        return [each for each in asked if each.status is InterruptStatus.OPEN]

    def _check_agent(self, name: str) -> None:
        try:
            agent = self._agents.get(name)
        except NotFound as exc:
            raise AgentNotFound(f"there is no agent `{name}`", name=name) from exc
        if not agent.task.enabled:
            raise ModeNotSupported(f"agent `{name}` takes no tasks: set `task.enabled` in its agent.json", name=name)


def _not_found(name: str) -> TaskNotFound:
    return TaskNotFound(f"there is no task `{name}`", id=name)


def _not_waiting(name: str, below: Sequence[Interrupt] = ()) -> TaskNotWaiting:
    """Say that a task asks nothing, and which of those below it do."""
    asking = [task_id_of(each.run_id) for each in below]
    hint = f": `{asking[0]}` does, which it spawned" if asking else ""
    return TaskNotWaiting(f"task `{name}` asks nothing{hint}", id=name, asking=asking)
