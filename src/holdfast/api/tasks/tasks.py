"""Use cases of the tasks contract, in one space: create, read, follow, respond, cancel and delete."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import UNSET

from holdfast.api.contract_errors import ContractInvalid
from holdfast.api.tasks.bodies import (
    ListedTask,
    Task,
    TaskBody,
    TaskContext,
    TaskStatus,
    listed_task,
    newest_context,
    task_status,
)
from holdfast.api.tasks.errors import (
    AgentNotFound,
    ModeNotSupported,
    TaskActive,
    TaskAlreadyTerminal,
    TaskNotFound,
    TaskNotWaiting,
)
from holdfast.api.tasks.events import TaskEvents, TaskHistory
from holdfast.control.runs import RunControl, check_response_schema
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, HoldfastError, IllegalMove, Invalid, NotFound, RunActive
from holdfast.domain.idempotency import KeyedRequest
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptStatus
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import CreatedRun, NewRun, body_digest
from holdfast.domain.page import MAX_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Run
from holdfast.domain.task_ids import run_id_of, task_id_of
from holdfast.domain.thread import NewThread, derive_title
from holdfast.ports.log import Contexts, EventLog, Steps
from holdfast.ports.queue import Interrupts
from holdfast.ports.requests import KeyedRequests
from holdfast.ports.runs import RunFilter, Runs
from holdfast.ports.workspace import Agents

LEASE_RELEASE_TIMEOUT_SECONDS: Final = 15.0
"""How long to wait for the worker of a cancelled task to release its lease, before the task is deleted."""
_DELETE_RETRY_SECONDS: Final = 0.02


async def parse_response(interrupt: Interrupt, message: str) -> Json:
    """Return a text message as the response to an interrupt, or raise `ContractInvalid` if it does not fit.

    An approval takes a decision. Any other interrupt takes the text itself, or else the JSON in the text.
    """
    candidates: list[Json] = []
    if interrupt.kind is InterruptKind.APPROVAL:
        candidates.append(_approval_decision(message))
    else:
        candidates.append(message)
        with suppress(msgspec.DecodeError, RecursionError):
            candidates.append(msgspec.json.decode(message))
    first_error = None
    for response in candidates:
        try:
            await check_response_schema(interrupt, response)
        except Invalid as exc:
            first_error = first_error or exc
        else:
            return response
    raise ContractInvalid(
        "the message does not fit the interrupt: send text or JSON that matches `details.schema`",
        field="message",
        schema=interrupt.response_schema,
    ) from first_error


def _approval_decision(message: str) -> Json:
    word, _, reason = (part.strip() for part in message.partition(":"))
    match word.lower():
        case "approve" if not reason:
            return {"decision": "approve"}
        case "deny":
            return {"decision": "deny", "reason": reason} if reason else {"decision": "deny"}
        case _:
            raise ContractInvalid("respond to an approval with `approve` or `deny: reason`", field="message")


class TaskControl:
    """The use cases of tasks."""

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
        requests: KeyedRequests,
        agents: Agents,
        streams: LiveStreams,
    ) -> None:
        self._space = space
        self._control = control
        self._runs = runs
        self._steps = steps
        self._contexts = contexts
        self._interrupts = interrupts
        self._requests = requests
        self._agents = agents
        self._streams = streams
        self._history = TaskHistory(events)

    async def create(self, agent: str, body: TaskBody, *, key: str | None) -> CreatedRun:
        """Create a task for an agent."""
        new = NewRun(
            thread=NewThread(title=derive_title(body.input), agent_type=agent),
            messages=[NewMessage(role=Role.USER, content=body.input)],
            input=body.input,
            mode=Mode.TASK,
            agent_type=agent,
            priority=body.priority,
            tags=body.tags,
            limits=Limits(
                max_iterations=body.max_iterations,
                max_duration_seconds=body.max_duration_seconds,
                token_budget=body.token_budget,
                strict_token_budget=UNSET if body.token_budget is None else True,
            ),
            output_schema=UNSET if body.output_schema is None else body.output_schema,
            idempotency_key=key,
        )
        try:
            await self._check_agent(agent)
        except HoldfastError:  # a replayed request succeeds even if its agent was removed or changed
            run = key and await self._runs.find_by_idempotency_key(self._space, key, body=body_digest(new))
            if not run:
                raise
            return CreatedRun(run=run, replayed=True)
        return await self._control.start(self._space, new)

    async def page(self, where: RunFilter, *, limit: int, cursor: str | None) -> Page[ListedTask]:
        """Return tasks, newest first; a page may be longer than a page of the store."""
        found: list[Run] = []
        position = None if cursor is None else run_id_of(cursor)
        while True:
            page_size = min(limit - len(found), MAX_PAGE_SIZE)
            try:
                page = await self._runs.page(self._space, where=where, limit=page_size, cursor=position)
            except NotFound as exc:
                raise ContractInvalid(
                    "`cursor` must be the id of the last task of the previous page", field="cursor"
                ) from exc
            found += page.items
            position = None if page.next_cursor is None else RunId(page.next_cursor)
            if position is None or len(found) == limit:
                return Page(items=[listed_task(run) for run in found], next_cursor=position and task_id_of(position))

    async def run(self, name: str) -> Run:
        """Return the run of a task."""
        try:
            run = await self._runs.get(self._space, run_id_of(name))
        except NotFound as exc:
            raise _not_found(name) from exc
        if run.mode is not Mode.TASK:
            raise _not_found(name)
        return run

    async def get(self, name: str) -> Task:
        """Return a task with the number of its events."""
        run = await self.run(name)
        return Task(**msgspec.structs.asdict(listed_task(run)), event_count=await self._history.count(run))

    async def events(self, name: str, *, since: int, limit: int) -> TaskEvents:
        """Return up to `limit` events of a task with an id above `since`."""
        run = await self.run(name)
        events = [event for event in await self._history.events(run) if event.id > since]
        next_cursor = events[limit - 1].id if len(events) > limit else None
        return TaskEvents(task_id=task_id_of(run.id), events=events[:limit], next_cursor=next_cursor)

    async def follow(self, name: str, *, after: int) -> tuple[Run, Subscriber]:
        """Subscribe to the log of a task from its start, for a client that has its events up to `after`."""
        run = await self.run(name)
        if after > run.last_event_seq:
            last = run.last_event_seq
            raise ContractInvalid(
                f"there is no event {after} yet: the last one is {last}", last_event_id=after, last=last
            )
        return run, await self._streams.subscribe_run(self._space, run.id)

    async def respond(self, name: str, message: str, *, request: KeyedRequest | None = None) -> bool:
        """Respond to the oldest open interrupt of a task; return whether an earlier request with the key did it."""
        run = await self.run(name)
        if await self._requests.find(self._space, request, kind=str) is not None:
            return True
        if task_status(run) is not TaskStatus.WAITING:
            in_tree = await self._interrupts.of_run(self._space, run.id, below=True)
            raise _not_waiting(name, [each for each in in_tree if each.status is InterruptStatus.OPEN])
        interrupt = next(iter(await self._interrupts.open_for_run(self._space, run.id)), None)
        if interrupt is None:  # a concurrent response was faster
            raise _not_waiting(name)
        response = await parse_response(interrupt, message)
        try:
            done = await self._control.respond_once(
                self._space, run.id, response, request, interrupt=interrupt.id, digest=interrupt.digest
            )
        except (AlreadyAnswered, NotFound) as exc:
            raise _not_waiting(name) from exc
        return done.replayed

    async def cancel(self, name: str) -> None:
        """Cancel a task and all tasks that it spawned."""
        run = await self.run(name)
        try:
            await self._control.cancel(self._space, run.id)
        except IllegalMove as exc:
            raise TaskAlreadyTerminal(f"task `{name}` has ended", id=name) from exc

    async def delete(self, name: str, *, force: bool) -> None:
        """Delete a task and the tasks that it spawned; active ones only with `force`, which cancels them first."""
        run = await self.run(name)
        try:
            active = await self._active_runs(run)
            if active and not force:
                raise _task_active_error(run, active[0])
            for each in active:
                with suppress(IllegalMove):  # it ended in the meantime
                    await self._control.cancel(each.space_id, each.id, reason="deleted")
            await self._delete_when_released(run)
        except NotFound as exc:  # a concurrent delete was faster
            raise _not_found(name) from exc

    async def context(self, name: str) -> TaskContext | None:
        """Return the model context of the newest iteration; null before the first."""
        return await newest_context(self._contexts, self._steps, await self.run(name))

    async def _active_runs(self, run: Run) -> list[Run]:
        """Return the topmost active runs of a tree: cancelling one also cancels all runs below it."""
        if not run.status.terminal:
            return [run]
        children = await self._runs.children(run.space_id, run.id)
        return [active for child in children for active in await self._active_runs(child)]

    async def _delete_when_released(self, run: Run) -> None:
        """Delete an ended run as soon as its worker has released the lease."""
        try:
            async with asyncio.timeout(LEASE_RELEASE_TIMEOUT_SECONDS):
                while True:
                    with suppress(RunActive):
                        await self._runs.delete(run.space_id, run.id)
                        return
                    await asyncio.sleep(_DELETE_RETRY_SECONDS)
        except TimeoutError as exc:
            task = task_id_of(run.id)
            raise TaskActive(f"task `{task}` has ended, but its worker still holds the lease: retry", id=task) from exc

    async def _check_agent(self, name: str) -> None:
        try:
            agent = await self._agents.of_space(self._space, name)
        except NotFound as exc:
            raise AgentNotFound(f"there is no agent `{name}`", name=name) from exc
        if agent.task.enabled is not True:
            raise ModeNotSupported(
                f'agent `{name}` does not accept tasks: put {{"task": {{"enabled": true}}}} into its agent.json',
                name=name,
            )


def _task_active_error(run: Run, active: Run) -> TaskActive:
    task, active_task = task_id_of(run.id), task_id_of(active.id)
    if task == active_task:
        message = f"task `{task}` is active: cancel it, or delete it with `force=true`"
    else:
        message = (
            f"task `{active_task}`, spawned by `{task}`, is active: cancel it, or delete `{task}` with `force=true`"
        )
    return TaskActive(message, id=task, active=active_task)


def _not_found(name: str) -> TaskNotFound:
    return TaskNotFound(f"there is no task `{name}`", id=name)


def _not_waiting(name: str, open_interrupts: Sequence[Interrupt] = ()) -> TaskNotWaiting:
    """Return the error of a task without an open interrupt, naming the spawned tasks that have one."""
    waiting = [task_id_of(each.run_id) for each in open_interrupts]
    hint = f": respond to `{waiting[0]}`, which it spawned" if waiting else ""
    return TaskNotWaiting(f"task `{name}` has no open interrupt{hint}", id=name, asking=waiting)
