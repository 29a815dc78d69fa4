"""Use cases of the tasks contract, in one space: create, read, follow, respond, cancel and delete."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.api.tasks.bodies import (
    PHASE_OF_STATUS,
    ListedTask,
    Task,
    TaskContext,
    TaskStatus,
    listed_task,
    newest_context,
    task_status,
    task_with_event_count,
)
from holdfast.api.tasks.errors import (
    AgentNotFound,
    ModeNotSupported,
    TaskActive,
    TaskAlreadyTerminal,
    TaskInvalid,
    TaskNotFound,
    TaskNotWaiting,
)
from holdfast.api.tasks.events import TaskEvents, TaskHistory
from holdfast.control.runs import RunControl, check_response
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, HoldfastError, IllegalMove, Invalid, NotFound, RunActive
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptStatus
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.page import MAX_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Priority, Run
from holdfast.domain.task_ids import run_id_of, task_id_of
from holdfast.domain.thread import NewThread, derive_title
from holdfast.ports.log import Contexts, EventLog, Steps
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import RunFilter, Runs
from holdfast.ports.workspace import Agents


def parse_response(interrupt: Interrupt, message: str) -> Json:
    """Return the answer that a message is; one that the question does not take raises `TaskInvalid`."""
    refused = None
    for reading in _interpretations(interrupt, message):
        try:
            check_response(interrupt, reading)
        except Invalid as exc:
            refused = refused or exc
        else:
            return reading
    raise TaskInvalid(
        "the message is no answer to this question: `details.schema` says what is, as text or as JSON",
        field="message",
        schema=interrupt.response_schema,
    ) from refused


def _interpretations(asked: Interrupt, message: str) -> Iterator[Json]:
    """Yield what a message may mean: a decision, or the text itself and then the JSON that it is."""
    if asked.kind is InterruptKind.APPROVAL:
        yield _approval_decision(message)
        return
    yield message
    with suppress(msgspec.DecodeError, RecursionError):
        yield msgspec.json.decode(message)


def _approval_decision(message: str) -> Json:
    word, _, reason = (part.strip() for part in message.partition(":"))
    match word.lower():
        case "approve" if not reason:
            return {"decision": "approve"}
        case "deny":
            return {"decision": "deny", "reason": reason} if reason else {"decision": "deny"}
        case _:
            raise TaskInvalid("an approval is answered with `approve` or `deny: reason`", field="message")


LEASE_RELEASE_TIMEOUT_SECONDS: Final = 15.0
"""Seconds that the worker of a cancelled task has to let go of it before it is deleted."""
_DELETE_RETRY_SECONDS: Final = 0.02


class TaskDeletion:
    """Removes tasks with all that belongs to them."""

    def __init__(self, *, runs: Runs, control: RunControl) -> None:
        self._runs = runs
        self._control = control

    async def delete(self, run: Run, *, force: bool) -> None:
        """Remove a task and those that it spawned; `force` ends them first, without it they must have ended."""
        active = await self._active(run)
        if active and not force:
            raise _task_active_error(run, active[0])
        for each in active:
            with suppress(IllegalMove):  # it ended meanwhile
                await self._control.cancel(each.space_id, each.id, reason="deleted")
        try:
            async with asyncio.timeout(LEASE_RELEASE_TIMEOUT_SECONDS):
                await self._forget(run)
        except TimeoutError as exc:
            task = task_id_of(run.id)
            raise TaskActive(f"task `{task}` has ended, but its worker holds it still: try again", id=task) from exc

    async def _active(self, run: Run) -> list[Run]:
        """Return the runs that must end: the topmost ones, because all below them end with them."""
        if not run.status.terminal:
            return [run]
        children = await self._runs.children(run.space_id, run.id)
        return [active for child in children for active in await self._active(child)]

    async def _forget(self, run: Run) -> None:
        """Delete a run that has ended, once its worker has let go."""
        while True:
            with suppress(RunActive):
                await self._runs.delete(run.space_id, run.id)
                return
            await asyncio.sleep(_DELETE_RETRY_SECONDS)


def _task_active_error(run: Run, active: Run) -> TaskActive:
    task, below = task_id_of(run.id), task_id_of(active.id)
    what = "it" if task == below else f"`{below}`"
    which = f"task `{task}`" if task == below else f"`{below}`, which task `{task}` spawned and which goes with it,"
    hint = f"cancel {what}, or delete the task with `force=true`"
    return TaskActive(f"{which} has not ended: {hint}", id=task, active=below)


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
        feeds: LiveStreams,
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
            phase=None if where.status is None else PHASE_OF_STATUS[where.status],
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
                return Page(items=[listed_task(run) for run in found], next_cursor=at and task_id_of(at))

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
        return task_with_event_count(run, event_count=await self._history.count(run))

    async def events(self, name: str, *, since: int, limit: int) -> TaskEvents:
        """Return up to `limit` events of a task with an id above `since`."""
        run = await self.run(name)
        told = [event for event in await self._history.events(run) if event.id > since]
        more = told[limit - 1].id if len(told) > limit else None
        return TaskEvents(task_id=task_id_of(run.id), events=told[:limit], next_cursor=more)

    async def follow(self, name: str, *, after: int) -> tuple[Run, Subscriber]:
        """Follow the log of a task from its beginning, for somebody who has its events up to `after`."""
        run = await self.run(name)
        if after > run.last_event_seq:
            raise TaskInvalid(f"there is no event {after} yet", last_event_id=after, last=run.last_event_seq)
        return run, await self._feeds.subscribe_run(self._space, run.id)

    async def respond(self, name: str, message: str) -> None:
        """Answer what a task asks; of several questions the oldest."""
        run = await self.run(name)
        if task_status(run) is not TaskStatus.WAITING:
            raise _not_waiting(name, await self._asked_below(run))
        question = next(iter(await self._interrupts.open_for_run(self._space, run.id)), None)
        if question is None:  # somebody else was faster
            raise _not_waiting(name)
        response = parse_response(question, message)
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
