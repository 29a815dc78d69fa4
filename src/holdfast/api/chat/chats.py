"""Use cases of chats with agents: one message, one reply."""

import msgspec

from holdfast.api.chat.sessions import SessionControl
from holdfast.api.openai.completions import (
    Completion,
    CompletionControl,
    NewCompletion,
    RunStopped,
    StartedCompletion,
    usage_since,
)
from holdfast.api.tasks.bodies import TaskStatus, task_status
from holdfast.api.tasks.errors import AgentNotFound, ModeNotSupported
from holdfast.control.agents import AgentControl, AgentList, AgentView
from holdfast.control.streams.broadcast import Subscriber
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Mode, RunError
from holdfast.domain.task_ids import task_id_of
from holdfast.ports.runs import Runs


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of a message."""

    session_id: ThreadId
    task_id: str
    status: TaskStatus
    """`waiting` if the agent asks something: the next message is the answer."""
    output: str | None
    """All that the agent said to the message; null if it failed or was cancelled."""
    error: RunError | None
    usage: Usage


class ChatControl:
    """What can be done with agents that chat."""

    def __init__(
        self, *, agents: AgentControl, sessions: SessionControl, completions: CompletionControl, runs: Runs
    ) -> None:
        self._agents = agents
        self._sessions = sessions
        self._completions = completions
        self._runs = runs

    def agents(self) -> AgentList:
        """Return all agents."""
        return self._agents.all()

    def agent(self, name: str) -> AgentView:
        """Return one agent."""
        try:
            return self._agents.get(name)
        except NotFound as exc:
            raise AgentNotFound(f"there is no agent `{name}`", name=name) from exc

    async def start(self, agent: str, message: str, *, session: str | None, key: str | None) -> StartedCompletion:
        """Say something to an agent, in a session or in a new one; where it asks something, this is the answer."""
        if Mode.CHAT not in self.agent(agent).modes:
            raise ModeNotSupported(f"agent `{agent}` does not chat: set `chat.enabled` in its agent.json", name=agent)
        thread = None if session is None else (await self._sessions.thread(session)).id
        said = NewMessage(role=Role.USER, content=message)
        return await self._completions.start(NewCompletion(agent=agent, messages=[said], thread=thread, key=key))

    async def wait_for_reply(self, started: StartedCompletion) -> ChatReply:
        """Wait for the answer."""
        try:
            return _to_reply(started, await self._completions.wait(started))
        except RunStopped:
            return await self._stopped(started)

    async def read_reply(self, started: StartedCompletion) -> tuple[ChatReply, str]:
        """Return the answer, which is there, and what of it nobody has streamed: the question at its end."""
        try:
            completion = await self._completions.read(started)
        except RunStopped:
            return await self._stopped(started), ""
        return _to_reply(started, completion), completion.interrupt_text

    async def follow(self, started: StartedCompletion) -> Subscriber:
        """Follow the answer."""
        return await self._completions.follow(started)

    def check_room(self) -> None:
        """Raise unless there may be one more stream."""
        self._completions.check_room()

    async def _stopped(self, begun: StartedCompletion) -> ChatReply:
        run = await self._runs.get(begun.run.space_id, begun.run.id)
        return ChatReply(
            session_id=run.thread_id,
            task_id=task_id_of(run.id),
            status=task_status(run),
            output=None,
            error=run.error,
            usage=usage_since(begun, run),
        )


def _to_reply(begun: StartedCompletion, completion: Completion) -> ChatReply:
    return ChatReply(
        session_id=begun.run.thread_id,
        task_id=task_id_of(begun.run.id),
        status=task_status(completion.run),
        output=completion.text,
        error=None,
        usage=completion.usage,
    )
