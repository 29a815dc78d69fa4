"""What requests about chats and sessions carry, and what they are answered with."""

from typing import Annotated

import msgspec

from holdfast.control.agents import AgentView
from holdfast.control.chat.session import ListedSession, Session, SessionMessage
from holdfast.control.task_contract.context import TaskContext
from holdfast.domain.ids import ThreadId
from holdfast.ports.workspace import BrokenAgent

_Id = msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")


class ChatBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Something to be said to an agent; without a session in a new one."""

    message: str
    session_id: Annotated[str, _Id] | None = None


class ContractAgents(msgspec.Struct, frozen=True, kw_only=True):
    """All agents that can be used, by name, and those whose files are in error."""

    agents: list[AgentView]
    broken: list[BrokenAgent]


class OneAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent."""

    agent: AgentView


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the one with the latest task first, and the cursor to ask for more with; no cursor, no more."""

    sessions: list[ListedSession]
    next_cursor: str | None


class OneSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session."""

    session: Session


class SessionDeleted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that is no more."""

    deleted: bool = True
    session_id: ThreadId


class SessionMessages(msgspec.Struct, frozen=True, kw_only=True, rename={"session_id": "sessionId"}):
    """The end of what was said, oldest first; with the cursor, what was said before."""

    session_id: ThreadId
    messages: list[SessionMessage]
    next_cursor: str | None


class SessionContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the model was told in the newest iteration; null before the first."""

    session_id: ThreadId
    context: TaskContext | None


class SessionCanceled(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tasks of a session that were under way and ended now."""

    session_id: ThreadId
    canceled: list[str]
