"""Subscriptions of one client socket: tasks by log number, sessions by a cursor over all their tasks.

HoldfastError (domain)
├── Conflict
│   └── AlreadySubscribed   the socket follows it already
└── NotFound
    └── NotSubscribed       the socket does not follow it
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from holdfast.api.chat.live_sessions import LiveControl, LiveSession
from holdfast.api.chat.socket_frames import (
    FrameSender,
    SocketClose,
    SubscribeFrame,
    SubscriptionTarget,
    UnsubscribeFrame,
    encode_error,
    encode_event_tails,
    encode_frame,
    subscription_target,
)
from holdfast.control.errors import BadCursor, TooManyStreams
from holdfast.control.streams.broadcast import EventBatch, StreamEnd, Subscriber
from holdfast.control.streams.channels import RunHint
from holdfast.domain.errors import Conflict, HoldfastError, NotFound
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.run import Run
from holdfast.domain.task_ids import task_id_of


class AlreadySubscribed(Conflict):
    """The socket follows the task or session already."""

    code = "ALREADY_SUBSCRIBED"


class NotSubscribed(NotFound):
    """The socket does not follow the task or session."""

    code = "NOT_SUBSCRIBED"


MAX_SUBSCRIPTIONS: Final = 100
"""Tasks and sessions that one socket may follow at once."""
EVENTS_PER_TURN: Final = 16
"""Events that are sent without a look at who else has work."""

_EncodeEvent: TypeAlias = Callable[[int, str], str]


class SubscriptionSet:
    """The subscriptions of one client."""

    def __init__(self, live: LiveControl, sender: FrameSender, tasks: asyncio.TaskGroup) -> None:
        self._live = live
        self._wire = sender
        self._tasks = tasks
        self._followed: dict[SubscriptionTarget, asyncio.Task[None]] = {}
        self._sessions: dict[ThreadId, tuple[LiveSession, asyncio.Event]] = {}

    def subscribe(self, request: SubscribeFrame) -> None:
        """Begin to follow a task or a session."""
        what = subscription_target(request)
        if what in self._followed:
            raise AlreadySubscribed(f"`{what.id}` is followed already: unsubscribe first", **what.fields)
        if len(self._followed) >= MAX_SUBSCRIPTIONS:
            raise TooManyStreams(
                f"a socket may follow at most {MAX_SUBSCRIPTIONS} tasks and sessions: unsubscribe",
                limit=MAX_SUBSCRIPTIONS,
            )
        follow = self._follow_task if what.kind == "task_id" else self._follow_session
        self._followed[what] = self._tasks.create_task(self._guarded(what, request, follow))

    async def unsubscribe(self, request: UnsubscribeFrame) -> None:
        """Stop to follow; nothing of it is sent after the answer."""
        what = subscription_target(request)
        following = self._followed.pop(what, None)
        if following is None:
            raise NotSubscribed(f"`{what.id}` is not followed", **what.fields)
        following.cancel()
        await asyncio.wait([following])
        await self._wire.send(encode_frame("unsubscribed", id=request.id, **what.fields))

    def notify_new_runs(self, hints: Iterable[RunHint]) -> None:
        """Have sessions looked at that have a new task."""
        for hint in hints:
            session, stirred = self._sessions.get(hint.thread_id, (None, None))
            if session is not None and stirred is not None and session.is_new(hint.run_id):
                stirred.set()

    def stop(self) -> None:
        """Follow nothing any more."""
        for following in self._followed.values():
            following.cancel()

    async def _guarded(
        self, what: SubscriptionTarget, wish: SubscribeFrame, follow: Callable[[SubscribeFrame], Awaitable[None]]
    ) -> None:
        """Follow, and say so if that cannot go on; the socket stays open."""
        try:
            await follow(wish)
        except* HoldfastError as found:
            await self._wire.send(encode_error(_first_error(found), id=wish.id, **what.fields))
        finally:
            if self._followed.get(what) is asyncio.current_task():
                del self._followed[what]

    async def _follow_task(self, wish: SubscribeFrame) -> None:
        name, after = str(wish.task_id), wish.after or 0
        if isinstance(after, str):
            raise BadCursor("the cursor of a task must be the number of an event", after=after[:64])
        with await self._live.follow_task(name, after=after) as follower:
            await self._wire.send(encode_frame("subscribed", id=wish.id, task_id=name, after=after))
            ending = await self._tell(follower, lambda _, tail: f'{{"type":"event","task_id":"{name}",{tail}')
        if ending is not StreamEnd.CLOSING:
            await self._wire.send(encode_frame("ended", task_id=name, reason=ending.value))

    async def _follow_session(self, wish: SubscribeFrame) -> None:
        if isinstance(wish.after, int):
            raise BadCursor("the cursor of a session must be one that an event came with", after=wish.after)
        session, stirred = await self._live.live_session(str(wish.session_id)), asyncio.Event()
        self._sessions[session.id] = session, stirred  # from here on no hint is missed
        try:
            runs = await session.start(wish.after)
            cursor = session.cursor.encode()
            await self._wire.send(encode_frame("subscribed", id=wish.id, session_id=session.id, cursor=cursor))
            async with asyncio.TaskGroup() as live:
                while True:
                    await self._tell_runs(session, runs, live)
                    await stirred.wait()
                    stirred.clear()
                    runs = await session.new_runs()
        finally:
            del self._sessions[session.id]

    async def _tell_runs(self, session: LiveSession, runs: Iterable[Run], live: asyncio.TaskGroup) -> None:
        """Tell those that have ended one after the other, and the others while they go on."""
        for run in runs:
            if run.status.terminal:
                await self._tell_run(session, run.id)
            else:
                live.create_task(self._tell_run(session, run.id))

    async def _tell_run(self, session: LiveSession, run: RunId) -> None:
        trail, task = session.cursor, task_id_of(run)

        def event(seq: int, tail: str) -> str:
            trail.advance(run, seq)
            head = f'{{"type":"event","session_id":"{session.id}","task_id":"{task}","cursor":"{trail.encode()}"'
            return f"{head},{tail}"

        def end() -> str:
            trail.finish_run(run)
            at = trail.encode()
            return encode_frame("ended", session_id=session.id, task_id=task, reason=ending.value, cursor=at)

        try:
            with await self._live.follow_run(run, after=trail.positions.get(run, 0)) as follower:
                ending = await self._tell(follower, event)
        except NotFound:
            ending = StreamEnd.GONE
        if ending is not StreamEnd.CLOSING:
            await self._wire.send_encoded(end)

    async def _tell(self, follower: Subscriber, write: _EncodeEvent) -> StreamEnd:
        """Send all that comes, and return why there is no more."""
        follower.on_stalled = lambda: self._wire.start_close(SocketClose.TOO_SLOW)
        while not isinstance(found := await follower.next(), StreamEnd):
            if found is not None:
                await self._tell_chunk(found, write)
        return found

    async def _tell_chunk(self, chunk: EventBatch, write: _EncodeEvent) -> None:
        for number, tail in enumerate(chunk.rendered(encode_event_tails)):
            await self._wire.send_encoded(partial(write, chunk.first + number, tail))
            if number % EVENTS_PER_TURN == EVENTS_PER_TURN - 1:
                await asyncio.sleep(0)  # a send that need not wait lets nobody else work


def _first_error(found: BaseExceptionGroup[HoldfastError]) -> HoldfastError:
    """Return one of the errors of a group; the first is the cause of the others."""
    one = found.exceptions[0]
    return _first_error(one) if isinstance(one, BaseExceptionGroup) else one
