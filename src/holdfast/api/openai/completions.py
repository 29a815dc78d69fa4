"""Chat completions by agents, all in one space: start or resume a run, wait for its text, report its usage.

HoldfastError (domain)
├── NotFound
│   └── ModelNotFound    no agent of that name chats
├── Unavailable
│   └── StillRunning     the run takes longer than a response may; it continues
└── RunStopped           the run of the completion failed or was cancelled
"""

import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.api.tasks.tasks import parse_response
from holdfast.control.run_starts import wait_until_settled
from holdfast.control.runs import RunControl
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.control.threads import newest_run
from holdfast.domain.agent import Agent
from holdfast.domain.content import Content, Json
from holdfast.domain.errors import AlreadyAnswered, HoldfastError, IdTaken, Invalid, NotFound, Unavailable, Waiting
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse, InterruptStatus
from holdfast.domain.limits import ZERO_USAGE, Usage
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunError, RunPhase, RunStatus, run_phase
from holdfast.domain.thread import NewThread
from holdfast.domain.tool import ToolSpec
from holdfast.ports.bus import RunWatcher
from holdfast.ports.log import Messages
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.workspace import Agents
from holdfast.tools.client_tools import CLIENT_TOOLS_VALUE, client_tools_value


class ModelNotFound(NotFound):
    """There is no agent of that name, or it does not chat."""

    code = "MODEL_NOT_FOUND"


class StillRunning(Unavailable):
    """The run takes longer than an answer may; it goes on."""

    code = "STILL_RUNNING"


class RunStopped(HoldfastError):
    """The run did not come to its end; `details.reason` is the code of what stopped it."""

    code = "RUN_STOPPED"


COMPLETION_ERRORS = (ModelNotFound, StillRunning, RunStopped)


def run_stopped(run: Run) -> RunStopped:
    """Make the error of a run that failed or was cancelled."""
    error = run.error or RunError(code="CANCELLED", message=f"run `{run.id}` was cancelled")
    return RunStopped(error.message, reason=error.code, run_id=run.id)


class NewCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A chat to be completed by an agent. Without a thread, `messages` are all there is of it."""

    agent: str
    messages: Sequence[NewMessage]
    tools: Sequence[ToolSpec] = ()
    """What the caller runs if the agent asks for it."""
    thread: ThreadId | None = None
    key: str | None = None


def messages_after_assistant(messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return what follows the last thing that the assistant said."""
    return list(takewhile(lambda each: each.role is not Role.ASSISTANT, reversed(messages)))[::-1]


def tool_results(messages: Sequence[NewMessage]) -> dict[str, Content]:
    """Return what the last messages answer to calls, by the ids of these."""
    return {
        each.tool_call_id: each.content for each in messages_after_assistant(messages) if each.tool_call_id is not None
    }


TEXT_SEPARATOR = "\n\n"
"""What stands between two things that an agent says in one completion."""


class StartedCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion that has begun: a part of the log of a run."""

    run: Run
    segment_id: RunId
    """That of the run, or of the segment in which it goes on."""
    after_seq: int = 0
    """The last event of the run that is no part of it."""
    message_offset: int
    """The messages of the run that are no part of it."""
    usage_before: Usage = ZERO_USAGE
    """What the run had used before."""
    replayed: bool = False


class ClientToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the caller is asked to run. Its id is that of the question, which is the same wherever it is read."""

    id: InterruptId
    name: str
    arguments: Json


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    run: Run
    text: str
    interrupt_text: str
    """The end of the text, if a person is asked something."""
    calls: list[ClientToolCall]
    usage: Usage


def build_completion(
    started: StartedCompletion, run: Run, *, messages: Sequence[Message], interrupts: Sequence[Interrupt]
) -> Completion:
    """Return the completion that ends where a run stands now, with all its messages and what it asks."""
    said = [each.content for each in messages[started.message_offset :] if each.role is Role.ASSISTANT]
    asked = [each.message or "" for each in interrupts if each.kind is not InterruptKind.CLIENT_TOOL]
    question = TEXT_SEPARATOR.join(each for each in asked if each)
    return Completion(
        run=run,
        text=TEXT_SEPARATOR.join(each for each in [*said, question] if isinstance(each, str) and each),
        interrupt_text=question,
        calls=[_client_tool_call(each) for each in interrupts if each.kind is InterruptKind.CLIENT_TOOL],
        usage=usage_since(started, run),
    )


def usage_since(started: StartedCompletion, run: Run) -> Usage:
    """Return what a run used since a completion began."""
    before, now = started.usage_before, run.usage
    return Usage(
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        cached_input_tokens=now.cached_input_tokens - before.cached_input_tokens,
        cost_usd=None if before.cost_usd is None or now.cost_usd is None else now.cost_usd - before.cost_usd,
    )


def _client_tool_call(question: Interrupt) -> ClientToolCall:
    return ClientToolCall(id=question.id, name=question.metadata["tool"], arguments=question.arguments)


MAX_WAIT_SECONDS: Final = 600.0
"""Seconds that an answer which is no stream may take; the official clients wait no longer either."""


class CompletionControl:
    """What can be done with agents as models."""

    def __init__(
        self,
        *,
        space: SpaceId,
        control: RunControl,
        runs: Runs,
        threads: Threads,
        messages: Messages,
        interrupts: Interrupts,
        agents: Agents,
        watcher: RunWatcher,
        feeds: LiveStreams,
        max_wait: float = MAX_WAIT_SECONDS,
        by: str | None = None,
    ) -> None:
        self._by = by
        self._space = space
        self._control = control
        self._runs = runs
        self._threads = threads
        self._messages = messages
        self._interrupts = interrupts
        self._agents = agents
        self._watcher = watcher
        self._feeds = feeds
        self._wait = max_wait

    def models(self) -> list[Agent]:
        """Return the agents that chat, by name."""
        return [agent for agent in self._agents.all() if agent.chat.enabled]

    def model(self, name: str) -> Agent:
        """Return an agent that chats."""
        try:
            agent = self._agents.get(name)
        except NotFound as exc:
            raise ModelNotFound(f"there is no agent `{name}`: `GET /v1/models` lists them", field="model") from exc
        if not agent.chat.enabled:
            raise ModelNotFound(f"agent `{name}` does not chat: set `chat.enabled` in its agent.json", field="model")
        return agent

    async def start(self, new: NewCompletion) -> StartedCompletion:
        """Have an agent go on with a chat: its waiting run if the last messages answer it, or else a new one."""
        self.model(new.agent)
        if answered := tool_results(new.messages):
            waiting = await self._waiting(answered)
            if waiting is not None:
                return await self._go_on(new, waiting)
        if new.thread is None:
            return await self._start(new, NewThread(agent_type=new.agent))
        return await self._on_thread(new, new.thread)

    async def wait(self, started: StartedCompletion) -> Completion:
        """Wait until the completion is whole, and return it."""
        run = await wait_until_settled(
            self._watcher, self._runs, self._feeds, self._space, started.run.id, seconds=self._wait
        )
        if not run.status.terminal and run_phase(run) is not RunPhase.ASKING:
            raise StillRunning(f"run `{run.id}` goes on: ask for a stream, or follow it at `/api/runs`", run_id=run.id)
        return await self._completion(started, run)

    async def follow(self, started: StartedCompletion) -> Subscriber:
        """Follow the log of the completion."""
        return await self._feeds.subscribe_run(self._space, started.run.id, after=started.after_seq)

    async def read(self, started: StartedCompletion) -> Completion:
        """Return the completion, which has come to its end."""
        return await self._completion(started, await self._runs.get(self._space, started.run.id))

    def check_room(self) -> None:
        """Raise unless there may be one more stream."""
        self._feeds.check_capacity()

    async def _completion(self, begun: StartedCompletion, run: Run) -> Completion:
        if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            raise run_stopped(run)
        messages = await self._messages.of_run(self._space, run.id)
        questions = [] if run.status.terminal else await self._open(run)
        return build_completion(begun, run, messages=messages, interrupts=questions)

    async def _waiting(self, answered: Mapping[str, Content]) -> list[Interrupt] | None:
        """Return the questions that were answered, if a run waits for all of these; any other call is history."""
        try:
            asked = [await self._interrupts.get(self._space, InterruptId(each)) for each in answered]
        except NotFound:
            return None
        wanted = all(each.status is InterruptStatus.OPEN and each.kind is InterruptKind.CLIENT_TOOL for each in asked)
        return asked if wanted and len({each.run_id for each in asked}) == 1 else None

    async def _go_on(self, asked: NewCompletion, waiting: list[Interrupt]) -> StartedCompletion:
        """Give a run the results of the caller's tools, and what the caller says besides."""
        given = tool_results(asked.messages)
        if asked.thread not in (None, waiting[0].thread_id):
            raise Invalid(f"these calls are not of thread `{asked.thread}`", field="messages")
        run = await self._runs.get(self._space, waiting[0].run_id)
        besides = [
            replace(each, created_by=self._by)
            for each in messages_after_assistant(asked.messages)
            if each.tool_call_id is None
        ]
        if besides and len(await self._open(run)) > len(waiting):
            raise Waiting(f"run `{run.id}` waits for more than these results: answer it before you say something else")
        return await self._resume(run, {each.id: _tool_response(given[each.id]) for each in waiting}, besides=besides)

    async def _on_thread(self, asked: NewCompletion, thread: ThreadId) -> StartedCompletion:
        try:
            newest = await newest_run(self._threads, self._runs, self._space, thread)
        except NotFound:
            return await self._on_new_thread(asked, thread)
        if tool_results(asked.messages):
            raise AlreadyAnswered(f"thread `{thread}` waits for no such results (any more)", thread_id=thread)
        if newest is not None and run_phase(newest) is RunPhase.ASKING:
            return await self._answer(asked, newest)
        return await self._start(asked, thread)

    async def _on_new_thread(self, asked: NewCompletion, thread: ThreadId) -> StartedCompletion:
        try:
            return await self._start(asked, NewThread(id=thread, agent_type=asked.agent))
        except IdTaken:  # somebody else was faster
            return await self._start(asked, thread)

    async def _answer(self, asked: NewCompletion, run: Run) -> StartedCompletion:
        """Take what the caller says as the answer to what a run asks; of several questions to the oldest."""
        question = next(iter(await self._open(run)), None)
        if question is None or question.kind is InterruptKind.CLIENT_TOOL:
            raise Waiting(f"run `{run.id}` waits for the results of its calls: send them as `tool` messages")
        said = [each.content for each in messages_after_assistant(asked.messages) if each.role is Role.USER]
        if len(said) != 1 or not isinstance(said[0], str):
            raise Invalid(f"run `{run.id}` asks something: answer with one user message of text", field="messages")
        response = parse_response(question, said[0])
        return await self._resume(run, {question.id: InterruptResponse(response=response, digest=question.digest)})

    async def _resume(
        self, run: Run, answers: Mapping[InterruptId, InterruptResponse], *, besides: Sequence[NewMessage] = ()
    ) -> StartedCompletion:
        said = len(await self._messages.of_run(self._space, run.id))
        segment = _new_run_id()
        signed = {name: replace(answer, by=self._by) for name, answer in answers.items()}
        after = await self._interrupts.respond_all(self._space, run.id, signed, segment=segment, messages=besides)
        return StartedCompletion(
            run=run, segment_id=segment, after_seq=after, message_offset=said, usage_before=run.usage
        )

    async def _start(self, asked: NewCompletion, thread: ThreadId | NewThread) -> StartedCompletion:
        """Start a run: with the whole chat on a new thread, and with what is new in it on one that goes on."""
        messages = asked.messages if isinstance(thread, NewThread) else messages_after_assistant(asked.messages)
        if not messages:
            raise Invalid("there is nothing to go on with: end `messages` with one of a user", field="messages")
        name = _new_run_id(asked.key) if asked.tools else None
        new = NewRun(
            thread=thread,
            messages=messages,
            id=name,
            agent_type=asked.agent,
            values={} if name is None else {CLIENT_TOOLS_VALUE: client_tools_value(name, asked.tools)},
            idempotency_key=asked.key,
        )
        created = await self._control.start(self._space, new)
        return StartedCompletion(
            run=created.run, segment_id=created.run.id, message_offset=len(messages), replayed=created.replayed
        )

    async def _open(self, run: Run) -> list[Interrupt]:
        return await self._interrupts.open_for_run(self._space, run.id)


def _tool_response(content: Content) -> InterruptResponse:
    """Return what a run takes as the result of a tool that its client runs."""
    return InterruptResponse(response={"content": content})


def _new_run_id(key: str | None = None) -> RunId:
    """Return the name of a run; under an idempotency key it is the same one again."""
    return RunId(derived_id("run", key=os.urandom(16).hex() if key is None else f"completion.{key}"))
