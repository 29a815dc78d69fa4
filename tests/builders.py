"""Builders for messages, events, threads and runs."""

from datetime import timedelta
from typing import Final

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.content import Json
from holdfast.domain.events import Event, TextMessageContent, TextMessageEnd, TextMessageStart
from holdfast.domain.ids import MessageId, OwnerId, SpaceId, ThreadId, ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

FIRST: Final = OwnerId("first")
SECOND: Final = OwnerId("second")
MINUTE: Final = timedelta(minutes=1)


def user(text: str, *, id: str | None = None) -> NewMessage:
    """Return a user message."""
    return NewMessage(role=Role.USER, content=text, id=None if id is None else MessageId(id))


def assistant(text: str, *calls: ToolCall, id: str | None = None) -> NewMessage:
    """Return an assistant message with tool calls."""
    return NewMessage(
        role=Role.ASSISTANT, content=text, tool_calls=list(calls), id=None if id is None else MessageId(id)
    )


def call(id: str, name: str = "look", **arguments: Json) -> ToolCall:
    """Return a tool call."""
    return ToolCall(id=ToolCallId(id), name=name, arguments=arguments)


def result(call_id: str, text: str = "seen") -> NewMessage:
    """Return a tool result message."""
    return NewMessage(role=Role.TOOL, content=text, tool_call_id=ToolCallId(call_id))


def text_events(text: str, *, id: str = "m") -> list[Event]:
    """Return the stream events of a complete text message."""
    message = MessageId(id)
    return [
        TextMessageStart(message_id=message, role="assistant"),
        TextMessageContent(message_id=message, delta=text),
        TextMessageEnd(message_id=message),
    ]


async def new_thread(store: Store, space: SpaceId, title: str = "a thread") -> ThreadId:
    """Create a thread."""
    return (await store.threads.create(space, NewThread(title=title))).id


async def new_run(store: Store, space: SpaceId, thread: ThreadId, *said: str) -> Run:
    """Create a run with these user messages as input."""
    return (await store.runs.create(space, NewRun(thread=thread, messages=[user(text) for text in said]))).run


async def claim(store: Store, owner: OwnerId = FIRST, *, lease: timedelta = MINUTE) -> Lease:
    """Claim the only claimable run."""
    (claimed,) = await store.leases.claim(owner, lease=lease, limit=10)
    return claimed


async def finish(store: Store, lease: Lease, text: str = "done") -> None:
    """Commit assistant messages and complete the run."""
    await store.journal.commit(
        Commit(
            lease=lease,
            messages=[assistant(text)],
            events=text_events(text, id=f"{lease.run_id}-end"),
            move=Move(to=RunStatus.COMPLETED, output=text),
        )
    )


async def finished_run(store: Store, space: SpaceId, thread: ThreadId, said: str, answer: str = "done") -> Run:
    """Create a run, claim it and complete it."""
    run = await new_run(store, space, thread, said)
    await finish(store, await claim(store), answer)
    return await store.runs.get(space, run.id)
