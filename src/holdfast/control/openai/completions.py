"""Chat completions by agents. All of them are in one space."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.control.conversations import newest_run
from holdfast.control.feeds.feeds import Feeds
from holdfast.control.feeds.follower import Follower
from holdfast.control.openai.asked import Asked, news, results
from holdfast.control.openai.completion import Begun, Completion, completion_of
from holdfast.control.openai.errors import ModelNotFound, StillRunning, stopped
from holdfast.control.runs import RunControl
from holdfast.control.task_contract.answers import answer_to
from holdfast.control.waiting import settled
from holdfast.domain.agent import Agent
from holdfast.domain.content import Content
from holdfast.domain.errors import AlreadyAnswered, IdTaken, Invalid, NotFound, Waiting
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse, InterruptStatus
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunPhase, RunStatus, run_phase
from holdfast.domain.thread import NewThread
from holdfast.ports.bus import RunWatcher
from holdfast.ports.log import Messages
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.workspace import Agents
from holdfast.tools.client_tools import CLIENT_TOOLS_VALUE, client_tools_value

WAIT: Final = 600.0
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
        feeds: Feeds,
        wait: float = WAIT,
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
        self._wait = wait

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

    async def begin(self, asked: Asked) -> Begun:
        """Have an agent go on with a chat: its waiting run if the last messages answer it, or else a new one."""
        self.model(asked.agent)
        if answered := results(asked.messages):
            waiting = await self._waiting(answered)
            if waiting is not None:
                return await self._go_on(asked, waiting)
        if asked.thread is None:
            return await self._start(asked, NewThread(agent_type=asked.agent))
        return await self._on_thread(asked, asked.thread)

    async def finish(self, begun: Begun) -> Completion:
        """Wait until the completion is whole, and return it."""
        run = await settled(self._watcher, self._runs, self._feeds, self._space, begun.run.id, seconds=self._wait)
        if not run.status.terminal and run_phase(run) is not RunPhase.ASKING:
            raise StillRunning(f"run `{run.id}` goes on: ask for a stream, or follow it at `/api/runs`", run_id=run.id)
        return await self._completion(begun, run)

    async def follow(self, begun: Begun) -> Follower:
        """Follow the log of the completion."""
        return await self._feeds.run(self._space, begun.run.id, after=begun.after)

    async def completion(self, begun: Begun) -> Completion:
        """Return the completion, which has come to its end."""
        return await self._completion(begun, await self._runs.get(self._space, begun.run.id))

    def check_room(self) -> None:
        """Raise unless there may be one more stream."""
        self._feeds.check_room()

    async def _completion(self, begun: Begun, run: Run) -> Completion:
        if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            raise stopped(run)
        messages = await self._messages.of_run(self._space, run.id)
        questions = [] if run.status.terminal else await self._open(run)
        return completion_of(begun, run, messages=messages, questions=questions)

    async def _waiting(self, answered: Mapping[str, Content]) -> list[Interrupt] | None:
        """Return the questions that were answered, if a run waits for all of these; any other call is history."""
        try:
            asked = [await self._interrupts.get(self._space, InterruptId(each)) for each in answered]
        except NotFound:
            return None
        wanted = all(each.status is InterruptStatus.OPEN and each.kind is InterruptKind.CLIENT_TOOL for each in asked)
        return asked if wanted and len({each.run_id for each in asked}) == 1 else None

    async def _go_on(self, asked: Asked, waiting: list[Interrupt]) -> Begun:
        """Give a run the results of the caller's tools, and what the caller says besides."""
        given = results(asked.messages)
        if asked.thread not in (None, waiting[0].thread_id):
            raise Invalid(f"these calls are not of thread `{asked.thread}`", field="messages")
        run = await self._runs.get(self._space, waiting[0].run_id)
        besides = [replace(each, created_by=self._by) for each in news(asked.messages) if each.tool_call_id is None]
        if besides and len(await self._open(run)) > len(waiting):
            raise Waiting(f"run `{run.id}` waits for more than these results: answer it before you say something else")
        return await self._resume(run, {each.id: _result(given[each.id]) for each in waiting}, besides=besides)

    async def _on_thread(self, asked: Asked, thread: ThreadId) -> Begun:
        try:
            newest = await newest_run(self._threads, self._runs, self._space, thread)
        except NotFound:
            return await self._on_new_thread(asked, thread)
        if results(asked.messages):
            raise AlreadyAnswered(f"thread `{thread}` waits for no such results (any more)", thread_id=thread)
        if newest is not None and run_phase(newest) is RunPhase.ASKING:
            return await self._answer(asked, newest)
        return await self._start(asked, thread)

    async def _on_new_thread(self, asked: Asked, thread: ThreadId) -> Begun:
        try:
            return await self._start(asked, NewThread(id=thread, agent_type=asked.agent))
        except IdTaken:  # somebody else was faster
            return await self._start(asked, thread)

    async def _answer(self, asked: Asked, run: Run) -> Begun:
        """Take what the caller says as the answer to what a run asks; of several questions to the oldest."""
        question = next(iter(await self._open(run)), None)
        if question is None or question.kind is InterruptKind.CLIENT_TOOL:
            raise Waiting(f"run `{run.id}` waits for the results of its calls: send them as `tool` messages")
        said = [each.content for each in news(asked.messages) if each.role is Role.USER]
        if len(said) != 1 or not isinstance(said[0], str):
            raise Invalid(f"run `{run.id}` asks something: answer with one user message of text", field="messages")
        response = answer_to(question, said[0])
        return await self._resume(run, {question.id: InterruptResponse(response=response, digest=question.digest)})

    async def _resume(
        self, run: Run, answers: Mapping[InterruptId, InterruptResponse], *, besides: Sequence[NewMessage] = ()
    ) -> Begun:
        said = len(await self._messages.of_run(self._space, run.id))
        segment = _new_name()
        signed = {name: replace(answer, by=self._by) for name, answer in answers.items()}
        after = await self._interrupts.answer_all(self._space, run.id, signed, segment=segment, besides=besides)
        return Begun(run=run, name=segment, after=after, said=said, used=run.usage)

    async def _start(self, asked: Asked, thread: ThreadId | NewThread) -> Begun:
        """Start a run: with the whole chat on a new thread, and with what is new in it on one that goes on."""
        messages = asked.messages if isinstance(thread, NewThread) else news(asked.messages)
        if not messages:
            raise Invalid("there is nothing to go on with: end `messages` with one of a user", field="messages")
        name = _new_name(asked.key) if asked.tools else None
        new = NewRun(
            thread=thread,
            messages=messages,
            id=name,
            agent_type=asked.agent,
            values={} if name is None else {CLIENT_TOOLS_VALUE: client_tools_value(name, asked.tools)},
            idempotency_key=asked.key,
        )
        created = await self._control.start(self._space, new)
        return Begun(run=created.run, name=created.run.id, said=len(messages), replayed=created.replayed)

    async def _open(self, run: Run) -> list[Interrupt]:
        return await self._interrupts.asked_by(self._space, run.id)


def _result(content: Content) -> InterruptResponse:
    """Return what a run takes as the result of a tool that its client runs."""
    return InterruptResponse(response={"content": content})


def _new_name(key: str | None = None) -> RunId:
    """Return the name of a run; under an idempotency key it is the same one again."""
    return RunId(derived_id("run", key=os.urandom(16).hex() if key is None else f"completion.{key}"))
