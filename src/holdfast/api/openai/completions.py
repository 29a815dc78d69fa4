"""Chat completions by agents, all in one space: start or resume a run, wait for its text, report its usage.

HoldfastError (domain)
├── NotFound
│   └── ModelNotFound    no agent of that name accepts chats
├── Unavailable
│   └── StillRunning     the run takes longer than a response may; it continues
└── RunStopped           the run of the completion failed or was cancelled
"""

import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.api.idempotency import keyed_request
from holdfast.api.streams.text_stream import TEXT_SEPARATOR
from holdfast.api.tasks.tasks import parse_response
from holdfast.control.run_starts import wait_until_settled
from holdfast.control.runs import RunControl
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.control.threads import newest_run
from holdfast.domain.agent import Agent
from holdfast.domain.content import Content, Json
from holdfast.domain.errors import AlreadyAnswered, HoldfastError, IdTaken, Invalid, NotFound, Unavailable, Waiting
from holdfast.domain.idempotency import KeyedRequest, derived_id
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse, InterruptStatus
from holdfast.domain.limits import ZERO_USAGE, Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Run, RunError, RunPhase, RunStatus, run_phase
from holdfast.domain.thread import NewThread
from holdfast.domain.tool import ToolSpec
from holdfast.ports.bus import RunWatcher
from holdfast.ports.log import Messages
from holdfast.ports.queue import Interrupts
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.workspace import Agents
from holdfast.tools.client_tools import CLIENT_TOOLS_VALUE, client_tools_value


class ModelNotFound(NotFound):
    """There is no agent of that name, or it does not accept chats."""

    code = "MODEL_NOT_FOUND"


class StillRunning(Unavailable):
    """The run takes longer than a response may; it continues."""

    code = "STILL_RUNNING"


class RunStopped(HoldfastError):
    """The run failed or was cancelled; `details.reason` is the error code of the run."""

    code = "RUN_STOPPED"


COMPLETION_ERRORS = (ModelNotFound, StillRunning, RunStopped)


class NewCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion to start. Without a thread, `messages` are the whole chat."""

    agent: str
    messages: Sequence[NewMessage]
    tools: Sequence[ToolSpec] = ()
    """Tools that the client runs when the agent calls them."""
    output_schema: dict[str, Json] | UnsetType = UNSET
    thread: ThreadId | None = None
    base: RunId | None = None
    """The run that the chat continues, on its thread; a base that has been continued already gets a branch."""
    key: str | None = None

    def request(self) -> KeyedRequest | None:
        """Return the completion as a request with its key, for the case that it resumes a run."""
        body = [self.agent, self.messages, self.tools, self.thread]
        body += [] if self.base is None else [self.base]
        return keyed_request(
            "complete_chat", self.key, body if self.output_schema is UNSET else [*body, self.output_schema]
        )


class _ResumedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request that resumed a run: the fields of its `StartedCompletion`."""

    run_id: RunId
    segment_id: RunId
    after_seq: int
    message_offset: int
    usage_before: Usage


class StartedCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion that has started: a part of the log of a run."""

    run: Run
    segment_id: RunId
    """The id of the run, or of the segment that resumes it."""
    after_seq: int = 0
    """The last event of the run before the completion."""
    message_offset: int
    """The number of messages of the run before the completion."""
    usage_before: Usage = ZERO_USAGE
    """The usage of the run before the completion."""
    replayed: bool = False
    structured: bool = False
    """Whether its output is JSON that matches a schema."""


class ClientToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the client must run. Its id is the id of the interrupt, so it is the same in every read."""

    id: InterruptId
    name: str
    arguments: Json


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A finished completion."""

    run: Run
    text: str
    """The replies of the agent; of a structured output only the last one, which is valid."""
    interrupt_text: str
    """The end of `text`: the messages of the interrupts that wait for a person."""
    calls: list[ClientToolCall]
    usage: Usage


def usage_since(started: StartedCompletion, run: Run) -> Usage:
    """Return the usage of a run since a completion started."""
    before, now = started.usage_before, run.usage
    return Usage(
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        cached_input_tokens=now.cached_input_tokens - before.cached_input_tokens,
        cost_usd=None if before.cost_usd is None or now.cost_usd is None else now.cost_usd - before.cost_usd,
    )


MAX_WAIT_SECONDS: Final = 600.0
"""How long a response without a stream may take; the official clients wait no longer either."""


class CompletionControl:
    """The use cases of agents as models."""

    def __init__(
        self,
        *,
        space: SpaceId,
        control: RunControl,
        runs: Runs,
        threads: Threads,
        messages: Messages,
        interrupts: Interrupts,
        requests: KeyedRequests,
        agents: Agents,
        watcher: RunWatcher,
        streams: LiveStreams,
        max_wait: float = MAX_WAIT_SECONDS,
        principal_name: str | None = None,
    ) -> None:
        self._principal_name = principal_name
        self._space = space
        self._control = control
        self._runs = runs
        self._threads = threads
        self._messages = messages
        self._interrupts = interrupts
        self._requests = requests
        self._agents = agents
        self._watcher = watcher
        self._streams = streams
        self._max_wait = max_wait

    async def models(self) -> list[Agent]:
        """Return the agents that accept chats, by name."""
        return [agent for agent in await self._agents.all_of_space(self._space) if agent.chat.allowed]

    async def model(self, name: str) -> Agent:
        """Return an agent that accepts chats."""
        try:
            agent = await self._agents.of_space(self._space, name)
        except NotFound as exc:
            raise ModelNotFound(f"there is no agent `{name}`: see `GET /v1/models`", field="model") from exc
        if not agent.chat.allowed:
            raise ModelNotFound(
                f"agent `{name}` does not accept chats: set `chat.enabled` in its agent.json", field="model"
            )
        return agent

    async def _is_structured(self, run: Run) -> bool:
        """Return whether the output of a run is JSON that matches a schema."""
        try:
            if run.output_schema is not None:
                return True
            return (await self._agents.of_space(self._space, run.agent_type)).output is not None
        except HoldfastError:
            return False

    async def start(self, new: NewCompletion) -> StartedCompletion:
        """Continue a chat: resume the waiting run that the last messages respond to, or else start a new run."""
        await self.model(new.agent)
        earlier = await self._requests.find(self._space, new.request(), kind=_ResumedRun)
        if earlier is not None:
            return await self._resumed_completion(earlier, replayed=True)
        if results := _tool_results(new.messages):
            interrupts = await self._open_client_tools(results)
            if interrupts is not None:
                return await self._resume_with_results(new, results, interrupts)
        if new.base is not None:
            return await self._continue_run(new, new.base)
        if new.thread is None:
            return await self._start_run(new, NewThread(agent_type=new.agent))
        return await self._continue_thread(new, new.thread)

    async def start_and_subscribe(self, new: NewCompletion) -> tuple[StartedCompletion, Subscriber]:
        """Start a completion and subscribe to its log; without capacity for a stream, nothing starts."""
        self._streams.check_capacity()
        started = await self.start(new)
        return started, await self._streams.subscribe_run(self._space, started.run.id, after=started.after_seq)

    async def wait(self, started: StartedCompletion) -> Completion:
        """Wait until the completion is finished, and return it."""
        run = await wait_until_settled(
            self._watcher, self._runs, self._streams, self._space, started.run.id, seconds=self._max_wait
        )
        if not run.status.terminal and run_phase(run) is not RunPhase.ASKING:
            raise StillRunning(
                f"run `{run.id}` is still running: request a stream, or follow it at `/api/runs`", run_id=run.id
            )
        return await self._completion(started, run)

    async def read(self, started: StartedCompletion) -> Completion:
        """Return a finished completion."""
        return await self._completion(started, await self._runs.get(self._space, started.run.id))

    async def _completion(self, started: StartedCompletion, run: Run) -> Completion:
        if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            error = run.error or RunError(code="CANCELLED", message=f"run `{run.id}` was cancelled")
            raise RunStopped(error.message, reason=error.code, run_id=run.id)
        messages = await self._messages.of_run(self._space, run.id)
        interrupts = [] if run.status.terminal else await self._interrupts.open_for_run(self._space, run.id)
        replies = [each.content for each in messages[started.message_offset :] if each.role is Role.ASSISTANT]
        if started.structured:
            replies = replies[-1:] if run.status.terminal else []
        client_calls = [each for each in interrupts if each.kind is InterruptKind.CLIENT_TOOL]
        interrupt_text = TEXT_SEPARATOR.join(
            each.message for each in interrupts if each.kind is not InterruptKind.CLIENT_TOOL and each.message
        )
        return Completion(
            run=run,
            text=TEXT_SEPARATOR.join(each for each in [*replies, interrupt_text] if isinstance(each, str) and each),
            interrupt_text=interrupt_text,
            calls=[
                ClientToolCall(id=each.id, name=each.metadata["tool"], arguments=each.arguments)
                for each in client_calls
            ],
            usage=usage_since(started, run),
        )

    async def _open_client_tools(self, results: Mapping[str, Content]) -> list[Interrupt] | None:
        """Return the interrupts of these results if one run waits for all of them; else the results are history."""
        try:
            interrupts = [await self._interrupts.get(self._space, InterruptId(call_id)) for call_id in results]
        except NotFound:
            return None
        waiting = all(
            each.status is InterruptStatus.OPEN and each.kind is InterruptKind.CLIENT_TOOL for each in interrupts
        )
        return interrupts if waiting and len({each.run_id for each in interrupts}) == 1 else None

    async def _resume_with_results(
        self, new: NewCompletion, results: Mapping[str, Content], interrupts: list[Interrupt]
    ) -> StartedCompletion:
        """Resume a run with the results of the client's tools and the other new messages."""
        if new.thread not in (None, interrupts[0].thread_id):
            raise Invalid(f"these calls do not belong to thread `{new.thread}`", field="messages")
        run = await self._runs.get(self._space, interrupts[0].run_id)
        messages = [
            replace(each, created_by=self._principal_name)
            for each in _messages_after_assistant(new.messages)
            if each.tool_call_id is None
        ]
        if messages and len(await self._interrupts.open_for_run(self._space, run.id)) > len(interrupts):
            raise Waiting(f"run `{run.id}` waits for more results: send all of them before other messages")
        responses = {each.id: InterruptResponse(response={"content": results[each.id]}) for each in interrupts}
        return await self._resume(new, run, responses, messages=messages)

    async def _continue_thread(self, new: NewCompletion, thread: ThreadId) -> StartedCompletion:
        try:
            newest = await newest_run(self._threads, self._runs, self._space, thread)
        except NotFound:
            try:
                return await self._start_run(new, NewThread(id=thread, agent_type=new.agent))
            except IdTaken:  # a concurrent request created the thread
                return await self._start_run(new, thread)
        if _tool_results(new.messages):
            raise AlreadyAnswered(f"thread `{thread}` does not wait for these results", thread_id=thread)
        if newest is not None and run_phase(newest) is RunPhase.ASKING:
            return await self._respond(new, newest)
        return await self._start_run(new, thread)

    async def _continue_run(self, new: NewCompletion, base: RunId) -> StartedCompletion:
        """Answer a run that waits for a person, or start a run with it as its base."""
        run = await self._runs.get(self._space, base)
        if _tool_results(new.messages):
            raise AlreadyAnswered(f"run `{run.id}` does not wait for these results", run_id=run.id)
        if run_phase(run) is RunPhase.ASKING:
            return await self._respond(new, run)
        return await self._start_run(new, run.thread_id, base=RunBase(run_id=run.id))

    async def _respond(self, new: NewCompletion, run: Run) -> StartedCompletion:
        """Resume a run with the new message as the response to its oldest open interrupt."""
        interrupt = next(iter(await self._interrupts.open_for_run(self._space, run.id)), None)
        if interrupt is None or interrupt.kind is InterruptKind.CLIENT_TOOL:
            raise Waiting(f"run `{run.id}` waits for the results of its calls: send them as `tool` messages")
        contents = [each.content for each in _messages_after_assistant(new.messages) if each.role is Role.USER]
        if len(contents) != 1 or not isinstance(contents[0], str):
            raise Invalid(f"run `{run.id}` waits for a person: respond with one text user message", field="messages")
        response = await parse_response(interrupt, contents[0])
        responses = {interrupt.id: InterruptResponse(response=response, digest=interrupt.digest)}
        return await self._resume(new, run, responses)

    async def _resume(
        self,
        new: NewCompletion,
        run: Run,
        responses: Mapping[InterruptId, InterruptResponse],
        *,
        messages: Sequence[NewMessage] = (),
    ) -> StartedCompletion:
        message_offset = len(await self._messages.of_run(self._space, run.id))
        segment = _new_run_id()
        signed = {id: replace(response, by=self._principal_name) for id, response in responses.items()}

        async def settle(ports: RequestPorts) -> _ResumedRun:
            return _ResumedRun(
                run_id=run.id,
                segment_id=segment,
                after_seq=await ports.interrupts.respond_all(
                    self._space, run.id, signed, segment=segment, messages=messages
                ),
                message_offset=message_offset,
                usage_before=run.usage,
            )

        done = await self._requests.once(self._space, new.request(), kind=_ResumedRun, create=settle)
        return await self._resumed_completion(done.value, replayed=done.replayed)

    async def _resumed_completion(self, resumed: _ResumedRun, *, replayed: bool) -> StartedCompletion:
        run = await self._runs.get(self._space, resumed.run_id)
        return StartedCompletion(
            run=run,
            segment_id=resumed.segment_id,
            after_seq=resumed.after_seq,
            message_offset=resumed.message_offset,
            usage_before=resumed.usage_before,
            replayed=replayed,
            structured=await self._is_structured(run),
        )

    async def _start_run(
        self, new: NewCompletion, thread: ThreadId | NewThread, *, base: RunBase | UnsetType = UNSET
    ) -> StartedCompletion:
        """Start a run: with the whole chat on a new thread, with the new messages on an existing one."""
        messages = new.messages if isinstance(thread, NewThread) else _messages_after_assistant(new.messages)
        if not messages:
            raise Invalid("there is no new message: end `messages` with a user message", field="messages")
        run_id = _new_run_id(new.key) if new.tools else None
        new_run = NewRun(
            thread=thread,
            messages=messages,
            id=run_id,
            agent_type=new.agent,
            base=base,
            values={} if run_id is None else {CLIENT_TOOLS_VALUE: client_tools_value(run_id, new.tools)},
            output_schema=new.output_schema,
            idempotency_key=new.key,
        )
        created = await self._control.start(self._space, new_run)
        return StartedCompletion(
            run=created.run,
            segment_id=created.run.id,
            message_offset=len(messages),
            replayed=created.replayed,
            structured=await self._is_structured(created.run),
        )


def _messages_after_assistant(messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return the messages after the last assistant message."""
    return list(takewhile(lambda each: each.role is not Role.ASSISTANT, reversed(messages)))[::-1]


def _tool_results(messages: Sequence[NewMessage]) -> dict[str, Content]:
    """Return the tool results after the last assistant message, by tool call id."""
    return {
        each.tool_call_id: each.content for each in _messages_after_assistant(messages) if each.tool_call_id is not None
    }


def _new_run_id(key: str | None = None) -> RunId:
    """Return a new run id; the same idempotency key gives the same id."""
    return RunId(derived_id("run", key=os.urandom(16).hex() if key is None else f"completion.{key}"))
