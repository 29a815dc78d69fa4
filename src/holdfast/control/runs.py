"""Run commands: start, retry, cancel and steer a run, and respond to its interrupts."""

from copy import copy
from itertools import takewhile
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.control.errors import QueueFull
from holdfast.domain.agent import candidate_models, check_mode, check_requested_model
from holdfast.domain.content import Content, Json, stored_file_ids
from holdfast.domain.errors import AlreadyAnswered, Conflict, HoldfastError, Invalid, NotFound, Waiting
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import InterruptId, MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.domain.limits import check_price_known, requested_limits
from holdfast.domain.message import NewMessage, Role, check_message_ids
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase, body_digest, input_of
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.working_folder import check_working_folder
from holdfast.ports.artifacts import Files
from holdfast.ports.log import Messages
from holdfast.ports.model import Models
from holdfast.ports.queue import Interrupts, RunCounts
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.workspace import Agents
from holdfast.tools.json_schema import compile_schema
from holdfast.tools.schema_check import find_problems

"""Characters of a schema violation that are repeated in an error message."""
QUEUE_RETRY_AFTER_SECONDS: Final = 5
MAX_CACHED_THREADS: Final = 4096
_RETRYABLE: Final = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})


async def check_response_schema(interrupt: Interrupt, response: Json) -> None:
    """Raise `Invalid` unless `response` matches the response schema of the interrupt, if it has a valid one."""
    if interrupt.response_schema is None:
        return
    try:
        schema = compile_schema(msgspec.json.encode(interrupt.response_schema))
    except (Invalid, ValueError):
        return  # the interrupt must stay answerable
    try:
        problems = await find_problems(schema, response, name="response", limit=1)
    except (ValueError, TypeError, RecursionError) as exc:
        raise Invalid(f"the response is not valid JSON: {exc}", field="response") from exc
    if problems:
        raise Invalid(
            f"the response to `{interrupt.id}` does not match its schema: {problems[0]}",
            field="response",
            schema=interrupt.response_schema,
        )


def _check_output_schema(schema: dict[str, Json]) -> None:
    try:
        compile_schema(msgspec.json.encode(schema))
    except (Invalid, ValueError) as exc:
        raise Invalid(f"`output_schema` cannot be used: {exc}", field="output_schema") from exc


class QueueLimit:
    """The maximum number of queued runs per space. Concurrent requests may exceed it by a few."""

    def __init__(self, run_counts: RunCounts, *, max_queued: int) -> None:
        self._run_counts = run_counts
        self._max_queued = max_queued

    async def check(self, space: SpaceId) -> None:
        """Raise `QueueFull` if the space has the maximum number of queued runs."""
        if await self._run_counts.queued(space) >= self._max_queued:
            raise QueueFull(
                f"the space has {self._max_queued} queued runs already: try again in {QUEUE_RETRY_AFTER_SECONDS} s",
                limit=self._max_queued,
                retry_after=QUEUE_RETRY_AFTER_SECONDS,
            )


class ThreadAgentCache:
    """The agent of recently used threads. An entry may be stale: the store verifies it when the run is created."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._agents: dict[tuple[SpaceId, ThreadId], str] = {}

    def cached(self, space: SpaceId, thread: ThreadId) -> str | None:
        """Return the cached agent of a thread."""
        return self._agents.get((space, thread))

    async def load(self, space: SpaceId, thread: ThreadId) -> str:
        """Read the agent of a thread and cache it."""
        self._agents.pop((space, thread), None)
        agent = (await self._threads.get(space, thread)).agent_type
        self._agents[space, thread] = agent
        if len(self._agents) > MAX_CACHED_THREADS:
            del self._agents[next(iter(self._agents))]
        return agent


class RunControl:
    """Commands that people and clients give to runs."""

    def __init__(
        self,
        *,
        runs: Runs,
        threads: Threads,
        messages: Messages,
        interrupts: Interrupts,
        requests: KeyedRequests,
        files: Files,
        agents: Agents,
        models: Models,
        calls_models: bool = True,
    ) -> None:
        """Create the commands. A process that calls no models itself needs neither their packages nor their keys."""
        self._calls_models = calls_models
        self._principal: str | None = None
        self._queue_limit: QueueLimit | None = None
        self._runs = runs
        self._thread_agents = ThreadAgentCache(threads)
        self._messages = messages
        self._interrupts = interrupts
        self._requests = requests
        self._files = files
        self._agents = agents
        self._models = models

    def as_principal(self, name: str | None, *, queue_limit: QueueLimit | None = None) -> "RunControl":
        """Return a copy that records `name` as the author of its commands and starts runs within `queue_limit`."""
        control = copy(self)
        control._principal, control._queue_limit = name, queue_limit
        return control

    async def start(self, space: SpaceId, new: NewRun) -> CreatedRun:
        """Create a run with the agent's current model and limits, as far as `new` does not override them.

        An unknown agent, file or revised message raises `NotFound`; a mode that the agent has disabled, and a working
        folder that the space may not use, raise `Conflict`. A cost budget needs models with known prices (`Invalid`). A
        repeated idempotency key returns the run that was created under it, even if that run could not be created now.
        """
        try:
            if new.model is not None:
                check_requested_model(new.model)
            if new.output_schema is not UNSET:
                _check_output_schema(new.output_schema)
            for message in new.messages:
                await self._check_files(space, message.content)
                if message.revises is not None:
                    await self._check_revised(space, new.thread, message.revises)
            return await self._create(space, new)
        except HoldfastError:  # only on failure: the common path does not look up the key twice
            earlier = await self._find_earlier(space, new)
            if earlier is None:
                raise
            return earlier

    async def _find_earlier(self, space: SpaceId, new: NewRun) -> CreatedRun | None:
        """Return the run that was created under the same idempotency key, if there is one."""
        if new.idempotency_key is None:
            return None
        run = await self._runs.find_by_idempotency_key(space, new.idempotency_key, body=body_digest(new))
        return None if run is None else CreatedRun(run=run, replayed=True)

    async def _create(self, space: SpaceId, new: NewRun) -> CreatedRun:
        if self._queue_limit is not None:
            await self._queue_limit.check(space)
        if new.agent_type is not None:
            return await self._create_for_agent(space, new, new.agent_type)
        if isinstance(new.thread, NewThread):
            return await self._create_for_agent(space, new, new.thread.agent_type)
        cached = self._thread_agents.cached(space, new.thread)
        if cached is not None:
            try:
                return await self._create_for_agent(space, new, cached, verify_agent=True)
            except (NotFound, Conflict, Invalid):
                pass  # perhaps because the cache is stale: an error that is real is raised again below
        return await self._create_for_agent(space, new, await self._thread_agents.load(space, new.thread))

    async def _create_for_agent(
        self, space: SpaceId, new: NewRun, name: str, *, verify_agent: bool = False
    ) -> CreatedRun:
        """Create a run of the agent `name`; with `verify_agent`, only if that still is the agent of the thread."""
        return await self._runs.create(
            space,
            await self.with_agent(space, new, name),
            # The digest covers the request, not the defaults that the agent adds to it.
            body=None if new.idempotency_key is None else body_digest(new),
            thread_agent=name if verify_agent else None,
        )

    async def with_agent(self, space: SpaceId, new: NewRun, name: str) -> NewRun:
        """Return a run with the current model and limits of an agent, or raise if it cannot be created so."""
        agent = await self._agents.active(name, space=space)
        check_mode(agent, new.mode)
        check_working_folder(agent, space)
        model = new.model or agent.models[0]
        limits = requested_limits(agent.limits, new.limits)
        model_names = candidate_models(agent, model)
        await self._models.prepare(model_names)
        try:
            price_known = self._models.fallback(model_names, folder=agent.folder).price_known
        except Invalid:
            if self._calls_models:
                raise
            price_known = False
        check_price_known(limits, price_known=price_known)
        return replace(
            self._with_author(new),
            agent_type=agent.name,
            agent_version=UNSET if agent.version is None else agent.version,
            model=model,
            limits=limits,
            input=input_of(new),
            pool=agent.pool,
        )

    async def agent_of_thread(self, space: SpaceId, thread: ThreadId) -> str:
        """Return the agent of a thread."""
        return await self._thread_agents.load(space, thread)

    def _with_author(self, new: NewRun) -> NewRun:
        """Set `created_by` on the run and, where it is missing, on its messages and its new thread."""
        author = new.created_by or self._principal
        if author is None:
            return new
        messages = [replace(message, created_by=message.created_by or author) for message in new.messages]
        thread = new.thread
        if isinstance(thread, NewThread):
            thread = replace(thread, created_by=thread.created_by or author)
        return replace(new, thread=thread, messages=messages, created_by=author)

    async def cancel(self, space: SpaceId, run: RunId, *, by: str | None = None, reason: str | None = None) -> Run:
        """Cancel a run and its descendants. A run that has ended raises `IllegalMove`."""
        cancelled = await self._runs.end(
            space, run, to=RunStatus.CANCELLED, reason=reason or "cancelled", by=by or self._principal
        )
        return next(each for each in cancelled if each.id == run)

    async def respond(
        self,
        space: SpaceId,
        run: RunId,
        response: Json,
        *,
        interrupt: InterruptId | None = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> Interrupt:
        """Respond to an interrupt of a run or of its descendants; the id is needed only if several are open.

        An interrupt of another run raises `NotFound`, and a response that does not match its schema `Invalid`. The
        digest of an approval is optional because the request never changes, but a given digest must match.
        """
        done = await self.respond_once(space, run, response, None, interrupt=interrupt, digest=digest, by=by)
        return done.value

    async def respond_once(
        self,
        space: SpaceId,
        run: RunId,
        response: Json,
        request: KeyedRequest | None,
        *,
        interrupt: InterruptId | None = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> KeyedResult[Interrupt]:
        """Respond to an interrupt, unless an earlier request with the same key did."""
        if (earlier := await self._requests.find(space, request, kind=str)) is not None:
            return KeyedResult(value=await self._interrupts.get(space, InterruptId(earlier)), replayed=True)
        found = await self._find_interrupt(space, run, interrupt)
        await check_response_schema(found, response)
        signed = InterruptResponse(
            response=response, digest=found.digest if digest is None else digest, by=by or self._principal
        )

        async def settle(ports: RequestPorts) -> str:
            return (await ports.interrupts.respond(space, found.id, signed)).id

        done = await self._requests.once(space, request, kind=str, create=settle)
        return KeyedResult(value=await self._interrupts.get(space, InterruptId(done.value)), replayed=done.replayed)

    async def steer(
        self,
        space: SpaceId,
        run: RunId,
        content: Content,
        *,
        message: MessageId | None = None,
        by: str | None = None,
    ) -> int:
        """Send a message to an active run, which reads it before its next model call; return the inbox item number.

        A run with an open interrupt raises `Waiting`, a message id that its chain or its inbox contains `IdTaken`, and
        a file that the space does not have `NotFound`.
        """
        return (await self.steer_once(space, run, content, None, message=message, by=by)).value

    async def steer_once(
        self,
        space: SpaceId,
        run: RunId,
        content: Content,
        request: KeyedRequest | None,
        *,
        message: MessageId | None = None,
        by: str | None = None,
    ) -> KeyedResult[int]:
        """Send a message to an active run, unless an earlier request with the same key did."""
        if (earlier := await self._requests.find(space, request, kind=int)) is not None:
            return KeyedResult(value=earlier, replayed=True)
        await self._check_files(space, content)
        author = by or self._principal
        steering = NewMessage(id=message, role=Role.USER, content=content, created_by=author)
        check_message_ids([steering])
        interrupts = await self._open_interrupts(space, run, below=False)
        if interrupts:
            raise Waiting(
                f"run `{run}` has an open interrupt: respond to it first", interrupts=[each.id for each in interrupts]
            )
        data = msgspec.to_builtins(steering)
        return await self._requests.once(
            space,
            request,
            kind=int,
            create=lambda ports: ports.inbox.put(space, run, kind=InboxKind.MESSAGE, data=data, by=author),
        )

    async def retry(
        self,
        space: SpaceId,
        run: RunId,
        *,
        from_start: bool = False,
        by: str | None = None,
        key: str | None = None,
    ) -> CreatedRun:
        """Create a run that continues a failed or cancelled one after its last settled step.

        With `from_start` it is a fork that begins with the same input instead.
        """
        failed = await self._runs.get(space, run)
        if failed.status not in _RETRYABLE:
            raise Conflict(f"run `{run}` is {failed.status}: only a failed or cancelled run can be retried")
        new = NewRun(
            thread=failed.thread_id,
            base=RunBase(run_id=run),
            input=failed.input,
            mode=failed.mode,
            agent_type=failed.agent_type,
            model=failed.model,
            priority=failed.priority,
            tags=failed.tags,
            limits=failed.limits,
            output_schema=UNSET if failed.output_schema is None else failed.output_schema,
            idempotency_key=key,
            created_by=by,
        )
        if from_start:
            base = failed.base_run_id
            messages = await self._messages.of_run(space, failed.id)
            new = replace(
                new,
                base=None if base is None else RunBase(run_id=base, sequence=failed.base_sequence),
                messages=[
                    NewMessage(role=each.role, content=each.content, revises=each.id, metadata=each.metadata)
                    for each in takewhile(lambda each: each.role is not Role.ASSISTANT, messages)
                    if each.role is not Role.TOOL  # calls that the base's cut leaves out settle again
                ],
            )
        # Files and the model were checked when the first run started: a file deleted since must not block a retry.
        return await self._find_earlier(space, new) or await self._create(space, new)

    async def _check_files(self, space: SpaceId, content: Content) -> None:
        for file in stored_file_ids(content):
            await self._files.get(space, file)

    async def _check_revised(self, space: SpaceId, thread: ThreadId | NewThread, message: MessageId) -> None:
        if isinstance(thread, NewThread) or not await self._messages.find_in_thread(space, thread, message):
            raise NotFound(f"there is no message `{message}` on the thread to revise", field="messages.revises")

    async def _find_interrupt(self, space: SpaceId, run: RunId, interrupt: InterruptId | None) -> Interrupt:
        if interrupt is not None:
            found = await self._interrupts.get(space, interrupt)
            if found.run_id != run and found not in await self._interrupts.of_run(space, run, below=True):
                raise NotFound(f"run `{run}` has no interrupt `{interrupt}`", id=interrupt)
            return found
        interrupts = await self._open_interrupts(space, run)
        if not interrupts:
            raise AlreadyAnswered(f"run `{run}` has no open interrupt", run_id=run)
        if len(interrupts) > 1:
            raise Invalid(
                f"run `{run}` has several open interrupts: name one with `interrupt_id`",
                field="interrupt_id",
                ids=[each.id for each in interrupts],
            )
        return interrupts[0]

    async def _open_interrupts(self, space: SpaceId, run: RunId, *, below: bool = True) -> list[Interrupt]:
        interrupts = await self._interrupts.of_run(space, run, below=below)
        return [each for each in interrupts if each.status is InterruptStatus.OPEN]
