"""Short ways to make what tests are about."""

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
    """Return something a person says."""
    return NewMessage(role=Role.USER, content=text, id=None if id is None else MessageId(id))


def assistant(text: str, *calls: ToolCall, id: str | None = None) -> NewMessage:
    """Return something a model says, and asks for."""
    return NewMessage(
        role=Role.ASSISTANT, content=text, tool_calls=list(calls), id=None if id is None else MessageId(id)
    )


def call(id: str, name: str = "look", **arguments: Json) -> ToolCall:
    """Return what a model asks for."""
    return ToolCall(id=ToolCallId(id), name=name, arguments=arguments)


def result(call_id: str, text: str = "seen") -> NewMessage:
    """Return what a tool answers."""
    return NewMessage(role=Role.TOOL, content=text, tool_call_id=ToolCallId(call_id))


def text_events(text: str, *, id: str = "m") -> list[Event]:
    """Return the events of a message that is said in one piece."""
    message = MessageId(id)
    return [
        TextMessageStart(message_id=message, role="assistant"),
        TextMessageContent(message_id=message, delta=text),
        TextMessageEnd(message_id=message),
    ]


async def new_thread(store: Store, space: SpaceId, title: str = "a thread") -> ThreadId:
    """Make a thread."""
    return (await store.threads.create(space, NewThread(title=title))).id


async def new_run(store: Store, space: SpaceId, thread: ThreadId, *said: str) -> Run:
    """Make a run that begins with what was said."""
    return (await store.runs.create(space, NewRun(thread=thread, messages=[user(text) for text in said]))).run


async def claim(store: Store, owner: OwnerId = FIRST, *, lease: timedelta = MINUTE) -> Lease:
    """Claim the only run that may be claimed."""
    (claimed,) = await store.leases.claim(owner, lease=lease, limit=10)
    return claimed


async def finish(store: Store, lease: Lease, text: str = "done") -> None:
    """Say something and complete the run."""
    await store.journal.commit(
        Commit(
            lease=lease,
            messages=[assistant(text)],
            events=text_events(text, id=f"{lease.run_id}-end"),
            move=Move(to=RunStatus.COMPLETED, output=text),
        )
    )


async def finished_run(store: Store, space: SpaceId, thread: ThreadId, said: str, answer: str = "done") -> Run:
    """Make a run, work on it and complete it."""
    run = await new_run(store, space, thread, said)
    await finish(store, await claim(store), answer)
    return await store.runs.get(space, run.id)
