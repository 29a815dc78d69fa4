"""Bodies of chats and sessions: requests, responses, and a thread shown as a session."""

from typing import Annotated

import msgspec

from holdfast.api.tasks.bodies import ListedTask, SentMessage, TaskContext, listed_task, to_sent_message
from holdfast.control.agents import AgentView
from holdfast.domain.ids import ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message
from holdfast.domain.run import Run
from holdfast.domain.task_ids import task_id_of
from holdfast.domain.thread import Thread, ThreadStatus
from holdfast.ports.workspace import BrokenAgent


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list."""

    id: ThreadId
    agent_name: str
    title: str | None
    status: ThreadStatus
    message_count: int
    """Messages on all branches of the thread."""
    created_at: Instant
    last_task_at: Instant | None


class Session(ListedSession, frozen=True, kw_only=True):
    """A session and its newest task."""

    last_task: ListedTask | None


class SessionMessage(SentMessage, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a session, with its task."""

    id: str
    task_id: str
    created_at: Instant


def to_listed_session(thread: Thread) -> ListedSession:
    """Return a thread as a session in a list."""
    return ListedSession(
        id=thread.id,
        agent_name=thread.agent_type,
        title=thread.title,
        status=thread.status,
        message_count=thread.next_sequence,
        created_at=thread.created_at,
        last_task_at=thread.last_run_at,
    )


def to_session(thread: Thread, newest: Run | None) -> Session:
    """Return a thread and its newest run as a session."""
    last_task = None if newest is None else listed_task(newest)
    return Session(**msgspec.structs.asdict(to_listed_session(thread)), last_task=last_task)


def to_session_message(message: Message) -> SessionMessage:
    """Return a message in the shape of the contract."""
    return SessionMessage(
        **msgspec.structs.asdict(to_sent_message(message)),
        id=message.id,
        task_id=task_id_of(message.run_id),
        created_at=message.created_at,
    )


_ID_PATTERN = msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")


class ChatBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A message to an agent; without a session it starts a new one."""

    message: str
    session_id: Annotated[str, _ID_PATTERN] | None = None


class ContractAgentList(msgspec.Struct, frozen=True, kw_only=True):
    """All usable agents, by name, and the agents with invalid files."""

    agents: list[AgentView]
    broken: list[BrokenAgent]


class ContractAgentResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An agent."""

    agent: AgentView


class ContractAgentDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that was deleted."""

    deleted: bool
    name: str


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the one with the latest task first, with the cursor of the next page; null on the last page."""

    sessions: list[ListedSession]
    next_cursor: str | None


class SessionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A session."""

    session: Session


class SessionDeleted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A deleted session."""

    deleted: bool = True
    session_id: ThreadId


class SessionMessages(msgspec.Struct, frozen=True, kw_only=True, rename={"session_id": "sessionId"}):
    """The last messages of a session, oldest first; the cursor leads to the messages before them."""

    session_id: ThreadId
    messages: list[SessionMessage]
    next_cursor: str | None


class SessionContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The model context of the newest iteration; null before the first."""

    session_id: ThreadId
    context: TaskContext | None


class SessionCanceled(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The active tasks of a session that were cancelled."""

    session_id: ThreadId
    canceled: list[str]
