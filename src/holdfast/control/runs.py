"""Run commands: start, retry, cancel and steer a run, and respond to its interrupts."""

from copy import copy
from functools import lru_cache
from itertools import takewhile
from typing import Final

import jsonschema_rs
import msgspec
from msgspec.structs import replace

from holdfast.control.errors import QueueFull
from holdfast.domain.agent import candidate_models, check_mode, check_requested_model
from holdfast.domain.content import Content, Json, stored_file_ids
from holdfast.domain.errors import AlreadyAnswered, Conflict, HoldfastError, Invalid, NotFound, Waiting
from holdfast.domain.ids import InterruptId, MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.domain.limits import check_price_known, requested_limits
from holdfast.domain.message import NewMessage, Role, check_message_ids
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase, body_digest
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.ports.artifacts import Files
from holdfast.ports.log import Messages
from holdfast.ports.model import Models
from holdfast.ports.queue import Inbox, Interrupts, RunCounts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.workspace import Agents

MAX_PROBLEM_CHARS: Final = 500


def check_response(asked: Interrupt, response: Json) -> None:
    """Raise `Invalid` unless `response` fits the schema that the question came with, if it came with one."""
    validator = (
        None if asked.response_schema is None else _response_validator(msgspec.json.encode(asked.response_schema))
    )
    if validator is None:
        return
    try:
        problem = next(validator.iter_errors(response), None)
    except (ValueError, TypeError, RecursionError) as exc:
        raise Invalid(f"the answer is no JSON: {exc}", field="response") from exc
    if problem is not None:
        why = problem.message[:MAX_PROBLEM_CHARS]
        raise Invalid(f"the answer to `{asked.id}` does not fit: {why}", field="response", schema=asked.response_schema)


@lru_cache(maxsize=256)
def _response_validator(schema: bytes) -> jsonschema_rs.Validator | None:
    """Return what checks answers; a schema that is none is no reason to leave a question without an answer."""
    try:
        return jsonschema_rs.validator_for(schema.decode(), offline=True)
    except ValueError:
        return None


QUEUE_RETRY_AFTER_SECONDS: Final = 5
"""Seconds after which somebody may try again."""


class QueueLimit:
    """Whether one more may. Who asks at the same moment is not counted, so it may be a few more."""

    def __init__(self, census: RunCounts, *, max_queued: int) -> None:
        self._census = census
        self._most = max_queued

    async def check(self, space: SpaceId) -> None:
        """Raise `QueueFull` unless there is room for one more run of a space."""
        if await self._census.queued(space) >= self._most:
            raise QueueFull(
                f"{self._most} runs of the space wait already: try again in {QUEUE_RETRY_AFTER_SECONDS} s",
                limit=self._most,
                retry_after=QUEUE_RETRY_AFTER_SECONDS,
            )


MAX_CACHED_THREADS: Final = 4096


class ThreadAgentCache:
    """What was seen of threads lately. It may have changed since: whoever relies on it has it checked."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._seen: dict[tuple[SpaceId, ThreadId], str] = {}

    def cached(self, space: SpaceId, thread: ThreadId) -> str | None:
        """Return the agent that a thread had, if that is known."""
        return self._seen.get((space, thread))

    async def load(self, space: SpaceId, thread: ThreadId) -> str:
        """Return the agent that a thread has, and remember it."""
        self._seen.pop((space, thread), None)
        agent = (await self._threads.get(space, thread)).agent_type
        self._seen[space, thread] = agent
        if len(self._seen) > MAX_CACHED_THREADS:
            del self._seen[next(iter(self._seen))]
        return agent


_RETRYABLE = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})


class RunControl:
    """What can be done with runs from outside."""

    def __init__(
        self,
        *,
        runs: Runs,
        threads: Threads,
        messages: Messages,
        inbox: Inbox,
        interrupts: Interrupts,
        files: Files,
        agents: Agents,
        models: Models,
    ) -> None:
        self._by: str | None = None
        self._room: QueueLimit | None = None
        self._runs = runs
        self._thread_agents = ThreadAgentCache(threads)
        self._messages = messages
        self._inbox = inbox
        self._interrupts = interrupts
        self._files = files
        self._agents = agents
        self._models = models

    def as_principal(self, by: str | None, *, queue_limit: QueueLimit | None = None) -> "RunControl":
        """Return what somebody can do: what they do is written down as theirs, and they start runs as there is room."""
        theirs = copy(self)
        theirs._by, theirs._room = by, queue_limit
        return theirs

    async def start(self, space: SpaceId, new: NewRun) -> CreatedRun:
        """Make a run of an agent, with the model that it has now and its limits, as far as `new` may change them.

        An unknown agent, a file that the space does not have and a revised message that the thread does not have raise
        `NotFound`; an agent that may not be run in that mode `Conflict`. A cost budget needs models whose prices are
        known (`Invalid`). What was made under an idempotency key is returned again, also if it could not be made now.
        """
        try:
            return await self._start(space, new)
        except HoldfastError:  # only now: what can be made needs no other look
            earlier = await self._earlier(space, new)
            if earlier is None:
                raise
            return earlier

    async def _start(self, space: SpaceId, new: NewRun) -> CreatedRun:
        if new.model is not None:
            check_requested_model(new.model)
        for message in new.messages:
            await self._check_files(space, message.content)
            if message.revises is not None:
                await self._check_revised(space, new.thread, message.revises)
        return await self._make(space, new)

    async def _earlier(self, space: SpaceId, new: NewRun) -> CreatedRun | None:
        """Return what was made under the key of `new` already."""
        if new.idempotency_key is None:
            return None
        run = await self._runs.find_by_idempotency_key(space, new.idempotency_key, body=body_digest(new))
        return None if run is None else CreatedRun(run=run, replayed=True)

    async def _make(self, space: SpaceId, new: NewRun) -> CreatedRun:
        if self._room is not None:
            await self._room.check(space)
        if new.agent_type is not None:
            return await self._create(space, new, new.agent_type)
        if isinstance(new.thread, NewThread):
            return await self._create(space, new, new.thread.agent_type)
        return await self._make_for_thread(space, new, new.thread)

    async def _make_for_thread(self, space: SpaceId, new: NewRun, thread: ThreadId) -> CreatedRun:
        """Make a run of the agent that its thread has; one that is remembered may not be right any more."""
        remembered = self._thread_agents.cached(space, thread)
        if remembered is not None:
            try:
                return await self._create(space, new, remembered, checked=True)
            except (NotFound, Conflict, Invalid):
                pass  # whatever it is, it is said again if it is so
        return await self._create(space, new, await self._thread_agents.load(space, thread))

    async def _create(self, space: SpaceId, new: NewRun, name: str, *, checked: bool = False) -> CreatedRun:
        agent = self._agents.get(name)
        check_mode(agent, new.mode)
        model = new.model or agent.models[0]
        limits = requested_limits(agent.limits, new.limits)
        names = candidate_models(agent, model)
        await self._models.prepare(names)
        found = self._models.fallback(names, folder=agent.folder)
        check_price_known(limits, price_known=found.price_known)
        made = replace(self._sign(new), agent_type=agent.name, model=model, limits=limits)
        return await self._runs.create(
            space, made, body=_idempotency_digest(new), thread_agent=name if checked else None
        )

    async def cancel(self, space: SpaceId, run: RunId, *, by: str | None = None, reason: str | None = None) -> Run:
        """End a run and all below it; one that has ended is refused (`IllegalMove`)."""
        ended = await self._runs.end(
            space, run, to=RunStatus.CANCELLED, reason=reason or "cancelled", by=by or self._by
        )
        return next(each for each in ended if each.id == run)

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
        """Answer the question of a run, or of one below it; the id is needed only where several are open.

        A question of another run raises `NotFound`, an answer that does not fit its schema `Invalid`. What a question
        asks for never changes, so the digest of an approval need not be said again; one that is said must be right.
        """
        if interrupt is None:
            asked = await self._only_question(space, run)
        else:
            asked = await self._question(space, run, interrupt)
        check_response(asked, response)
        answer = InterruptResponse(
            response=response, digest=asked.digest if digest is None else digest, by=by or self._by
        )
        return await self._interrupts.respond(space, asked.id, answer)

    async def steer(
        self, space: SpaceId, run: RunId, content: Content, *, message: MessageId | None = None, by: str | None = None
    ) -> int:
        """Tell a run something on its way; it hears it before its next model call. Return the number of the item.

        A run that asks a person something wants an answer first (`Waiting`). An id that a message of its chain has, or
        one that it has not heard yet, is refused (`IdTaken`), and so is a file that the space does not have
        (`NotFound`).
        """
        await self._check_files(space, content)
        by = by or self._by
        said = NewMessage(id=message, role=Role.USER, content=content, created_by=by)
        check_message_ids([said])
        questions = await self._open_questions(space, run, below=False)
        if questions:
            raise Waiting(f"run `{run}` waits for an answer: answer first", interrupts=[each.id for each in questions])
        return await self._inbox.put(space, run, kind=InboxKind.MESSAGE, data=msgspec.to_builtins(said), by=by)

    async def retry(self, space: SpaceId, run: RunId, *, from_start: bool = False, by: str | None = None) -> CreatedRun:
        """Try a run again that failed or was cancelled: a new run goes on after its last settled step.

        With `from_start` it is a fork that begins with the same input as if nothing had happened.
        """
        failed = await self._runs.get(space, run)
        if failed.status not in _RETRYABLE:
            raise Conflict(f"run `{run}` is {failed.status}: only one that failed or was cancelled is tried again")
        again = NewRun(
            thread=failed.thread_id,
            base=RunBase(run_id=run),
            input=failed.input,
            mode=failed.mode,
            agent_type=failed.agent_type,
            model=failed.model,
            priority=failed.priority,
            tags=failed.tags,
            limits=failed.limits,
            created_by=by,
        )
        # Neither a file that was deleted since nor the agent's own model is an obstacle: they were checked at first.
        return await self._make(space, await self._from_start(space, failed, again) if from_start else again)

    async def _from_start(self, space: SpaceId, failed: Run, again: NewRun) -> NewRun:
        """Return the run that begins where `failed` began, with what it was told at first."""
        told = takewhile(
            lambda message: message.role is not Role.ASSISTANT, await self._messages.of_run(space, failed.id)
        )
        base = None if failed.base_run_id is None else RunBase(run_id=failed.base_run_id, sequence=failed.base_sequence)
        messages = [
            NewMessage(role=message.role, content=message.content, revises=message.id, metadata=message.metadata)
            for message in told
        ]
        return replace(again, base=base, messages=messages)

    def _sign(self, new: NewRun) -> NewRun:
        by = new.created_by or self._by
        if by is None:
            return new
        messages = [replace(each, created_by=each.created_by or by) for each in new.messages]
        thread = new.thread
        if isinstance(thread, NewThread):
            thread = replace(thread, created_by=thread.created_by or by)
        return replace(new, thread=thread, messages=messages, created_by=by)

    async def _check_files(self, space: SpaceId, content: Content) -> None:
        for file in stored_file_ids(content):
            await self._files.get(space, file)

    async def _check_revised(self, space: SpaceId, thread: ThreadId | NewThread, message: MessageId) -> None:
        if isinstance(thread, NewThread) or not await self._messages.find_in_thread(space, thread, message):
            raise NotFound(f"there is no message `{message}` on the thread to revise", field="messages.revises")

    async def _question(self, space: SpaceId, run: RunId, interrupt: InterruptId) -> Interrupt:
        asked = await self._interrupts.get(space, interrupt)
        if asked.run_id != run and asked not in await self._interrupts.of_run(space, run, below=True):
            raise NotFound(f"run `{run}` does not ask `{interrupt}`", id=interrupt)
        return asked

    async def _only_question(self, space: SpaceId, run: RunId) -> Interrupt:
        questions = await self._open_questions(space, run)
        if not questions:
            raise AlreadyAnswered(f"run `{run}` has no open question", run_id=run)
        if len(questions) > 1:
            ids = [each.id for each in questions]
            why = f"run `{run}` has several open questions: name one of them with `interrupt_id`"
            raise Invalid(why, field="interrupt_id", ids=ids)
        return questions[0]

    async def _open_questions(self, space: SpaceId, run: RunId, *, below: bool = True) -> list[Interrupt]:
        asked = await self._interrupts.of_run(space, run, below=below)
        return [each for each in asked if each.status is InterruptStatus.OPEN]


def _idempotency_digest(new: NewRun) -> str | None:
    """Return what makes a request the same as another: what was asked for, not what the agent makes of it."""
    return None if new.idempotency_key is None else body_digest(new)
