"""Use cases of chats with agents: one message, one reply."""

import msgspec

from holdfast.api.chat.bodies import ChatBody
from holdfast.api.chat.sessions import SessionControl
from holdfast.api.openai.completions import (
    CompletionControl,
    NewCompletion,
    RunStopped,
    StartedCompletion,
    usage_since,
)
from holdfast.api.tasks.bodies import TaskStatus, task_status
from holdfast.api.tasks.errors import AgentNotFound, ModeNotSupported
from holdfast.control.agents import AgentControl, AgentView
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Mode, Run, RunError
from holdfast.domain.task_ids import task_id_of
from holdfast.ports.runs import Runs


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The reply to a message."""

    session_id: ThreadId
    task_id: str
    status: TaskStatus
    """`waiting` if the agent has an open interrupt: the next message is the response to it."""
    output: str | None
    """The whole text of the reply; null if the run failed or was cancelled."""
    error: RunError | None
    usage: Usage


class ChatControl:
    """The use cases of chats."""

    def __init__(
        self,
        *,
        space: SpaceId,
        agents: AgentControl,
        sessions: SessionControl,
        completions: CompletionControl,
        runs: Runs,
    ) -> None:
        self.space = space
        self.agents = agents
        self.completions = completions
        self._sessions = sessions
        self._runs = runs

    async def agent(self, name: str) -> AgentView:
        """Return one agent."""
        try:
            return await self.agents.get(self.space, name)
        except NotFound as exc:
            raise AgentNotFound(f"there is no agent `{name}`", name=name) from exc

    async def new_completion(self, agent: str, body: ChatBody, *, key: str | None) -> NewCompletion:
        """Return the completion that a message to an agent requests, in its session or in a new one."""
        if Mode.CHAT not in (await self.agent(agent)).modes:
            raise ModeNotSupported(
                f"agent `{agent}` does not accept chats: set `chat.enabled` in its agent.json", name=agent
            )
        thread = None if body.session_id is None else (await self._sessions.thread(body.session_id)).id
        message = NewMessage(role=Role.USER, content=body.message)
        return NewCompletion(agent=agent, messages=[message], thread=thread, key=key)

    async def wait_for_reply(self, started: StartedCompletion) -> ChatReply:
        """Wait until the reply is complete, and return it."""
        try:
            completion = await self.completions.wait(started)
        except RunStopped:
            return await self._stopped_reply(started)
        return _to_reply(started, completion.run, completion.text)

    async def read_reply(self, started: StartedCompletion) -> tuple[ChatReply, str]:
        """Return a complete reply, and the text of its interrupt, which the log does not stream."""
        try:
            completion = await self.completions.read(started)
        except RunStopped:
            return await self._stopped_reply(started), ""
        return _to_reply(started, completion.run, completion.text), completion.interrupt_text

    async def _stopped_reply(self, started: StartedCompletion) -> ChatReply:
        return _to_reply(started, await self._runs.get(started.run.space_id, started.run.id), None)


def _to_reply(started: StartedCompletion, run: Run, output: str | None) -> ChatReply:
    return ChatReply(
        session_id=run.thread_id,
        task_id=task_id_of(run.id),
        status=task_status(run),
        output=output,
        error=run.error if output is None else None,
        usage=usage_since(started, run),
    )
