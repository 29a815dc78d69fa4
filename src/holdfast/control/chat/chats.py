"""Chats with agents in the hands of those who know the contract: one message, one answer."""

import msgspec

from holdfast.control.agents import AgentControl, AgentList, AgentView
from holdfast.control.chat.sessions import SessionControl
from holdfast.control.feeds.follower import Follower
from holdfast.control.openai.asked import Asked
from holdfast.control.openai.completion import Begun, Completion, used_since
from holdfast.control.openai.completions import CompletionControl
from holdfast.control.openai.errors import RunStopped
from holdfast.control.task_contract.errors import AgentNotFound, ModeNotSupported
from holdfast.control.task_contract.ids import task_id_of
from holdfast.control.task_contract.task import TaskStatus, status_of
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Mode, RunError
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

    async def say(self, agent: str, message: str, *, session: str | None, key: str | None) -> Begun:
        """Say something to an agent, in a session or in a new one; where it asks something, this is the answer."""
        if Mode.CHAT not in self.agent(agent).modes:
            raise ModeNotSupported(f"agent `{agent}` does not chat: set `chat.enabled` in its agent.json", name=agent)
        thread = None if session is None else (await self._sessions.thread(session)).id
        said = NewMessage(role=Role.USER, content=message)
        return await self._completions.begin(Asked(agent=agent, messages=[said], thread=thread, key=key))

    async def reply(self, begun: Begun) -> ChatReply:
        """Wait for the answer."""
        try:
            return _reply(begun, await self._completions.finish(begun))
        except RunStopped:
            return await self._stopped(begun)

    async def replied(self, begun: Begun) -> tuple[ChatReply, str]:
        """Return the answer, which is there, and what of it nobody has streamed: the question at its end."""
        try:
            completion = await self._completions.completion(begun)
        except RunStopped:
            return await self._stopped(begun), ""
        return _reply(begun, completion), completion.question

    async def follow(self, begun: Begun) -> Follower:
        """Follow the answer."""
        return await self._completions.follow(begun)

    def check_room(self) -> None:
        """Raise unless there may be one more stream."""
        self._completions.check_room()

    async def _stopped(self, begun: Begun) -> ChatReply:
        run = await self._runs.get(begun.run.space_id, begun.run.id)
        return ChatReply(
            session_id=run.thread_id,
            task_id=task_id_of(run.id),
            status=status_of(run),
            output=None,
            error=run.error,
            usage=used_since(begun, run),
        )


def _reply(begun: Begun, completion: Completion) -> ChatReply:
    return ChatReply(
        session_id=begun.run.thread_id,
        task_id=task_id_of(begun.run.id),
        status=status_of(completion.run),
        output=completion.text,
        error=None,
        usage=completion.usage,
    )
