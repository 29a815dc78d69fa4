"""A session: a thread, in the words of the contract."""

import msgspec

from holdfast.control.task_contract.context import SentMessage, sent
from holdfast.control.task_contract.ids import task_id_of
from holdfast.control.task_contract.task import ListedTask, listed
from holdfast.domain.ids import ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message
from holdfast.domain.run import Run
from holdfast.domain.thread import Thread, ThreadStatus


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list."""

    id: ThreadId
    agent_name: str
    title: str | None
    status: ThreadStatus
    message_count: int
    """On all branches of its thread."""
    created_at: Instant
    last_task_at: Instant | None


class Session(ListedSession, frozen=True, kw_only=True):
    """A session, and the newest thing that was done in it."""

    last_task: ListedTask | None


class SessionMessage(SentMessage, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was said, and in which task."""

    id: str
    task_id: str
    created_at: Instant


def listed_session(thread: Thread) -> ListedSession:
    """Return a thread as a list shows it."""
    return ListedSession(
        id=thread.id,
        agent_name=thread.agent_type,
        title=thread.title,
        status=thread.status,
        message_count=thread.next_sequence,
        created_at=thread.created_at,
        last_task_at=thread.last_run_at,
    )


def session_of(thread: Thread, newest: Run | None) -> Session:
    """Return a thread with its newest run."""
    last = None if newest is None else listed(newest)
    return Session(**msgspec.structs.asdict(listed_session(thread)), last_task=last)


def session_message(message: Message) -> SessionMessage:
    """Return a message as the contract writes it."""
    return SessionMessage(
        **msgspec.structs.asdict(sent(message)),
        id=message.id,
        task_id=task_id_of(message.run_id),
        created_at=message.created_at,
    )
