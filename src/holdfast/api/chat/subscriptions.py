"""Subscriptions of one client socket: tasks by log number, sessions by a cursor over all their tasks.

HoldfastError (domain)
├── Conflict
│   └── AlreadySubscribed   the socket is already subscribed to it
└── NotFound
    └── NotSubscribed       the socket is not subscribed to it
"""

import asyncio
from collections.abc import Callable, Iterable
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
from holdfast.control.streams.broadcast import StreamEnd, Subscriber
from holdfast.control.streams.channels import RunHint
from holdfast.domain.errors import Conflict, HoldfastError, NotFound
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.task_ids import task_id_of


class AlreadySubscribed(Conflict):
    """The socket is already subscribed to the task or session."""

    code = "ALREADY_SUBSCRIBED"


class NotSubscribed(NotFound):
    """The socket is not subscribed to the task or session."""

    code = "NOT_SUBSCRIBED"


MAX_SUBSCRIPTIONS: Final = 100
"""Tasks and sessions that one socket may follow at once."""
EVENTS_PER_TURN: Final = 16
"""Events to send before other tasks of the event loop get a turn."""

_EncodeEvent: TypeAlias = Callable[[int, str], str]


class SubscriptionSet:
    """The subscriptions of one client."""

    def __init__(self, live: LiveControl, sender: FrameSender, tasks: asyncio.TaskGroup) -> None:
        self._live = live
        self._sender = sender
        self._tasks = tasks
        self._subscriptions: dict[SubscriptionTarget, asyncio.Task[None]] = {}
        self._sessions: dict[ThreadId, tuple[LiveSession, asyncio.Event]] = {}

    def subscribe(self, frame: SubscribeFrame) -> None:
        """Start to follow a task or a session."""
        target = subscription_target(frame)
        if target in self._subscriptions:
            raise AlreadySubscribed(f"`{target.id}` is already subscribed: unsubscribe first", **target.fields)
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise TooManyStreams(
                f"a socket may follow at most {MAX_SUBSCRIPTIONS} tasks and sessions: unsubscribe from one",
                limit=MAX_SUBSCRIPTIONS,
            )
        self._subscriptions[target] = self._tasks.create_task(self._follow(target, frame))

    async def unsubscribe(self, frame: UnsubscribeFrame) -> None:
        """End a subscription; none of its events are sent after the response."""
        target = subscription_target(frame)
        subscription = self._subscriptions.pop(target, None)
        if subscription is None:
            raise NotSubscribed(f"`{target.id}` is not subscribed", **target.fields)
        subscription.cancel()
        await asyncio.wait([subscription])
        await self._sender.send(encode_frame("unsubscribed", id=frame.id, **target.fields))

    def notify_new_runs(self, hints: Iterable[RunHint]) -> None:
        """Wake the subscribed sessions that have a new run."""
        for hint in hints:
            session, new_run = self._sessions.get(hint.thread_id, (None, None))
            if session is not None and new_run is not None and session.is_new(hint.run_id):
                new_run.set()

    def stop(self) -> None:
        """Cancel all subscriptions."""
        for subscription in self._subscriptions.values():
            subscription.cancel()

    async def _follow(self, target: SubscriptionTarget, frame: SubscribeFrame) -> None:
        """Follow the target; an error ends the subscription, not the socket."""
        try:
            if target.kind == "task_id":
                await self._follow_task(target.id, frame)
            elif target.kind == "channel":
                await self._follow_channel(target.id, frame)
            else:
                await self._follow_session(target.id, frame)
        except* HoldfastError as group:
            await self._sender.send(encode_error(_first_error(group), id=frame.id, **target.fields))
        finally:
            if self._subscriptions.get(target) is asyncio.current_task():
                del self._subscriptions[target]

    async def _follow_task(self, name: str, frame: SubscribeFrame) -> None:
        after = frame.after or 0
        if isinstance(after, str):
            raise BadCursor("the cursor of a task must be the number of an event", after=after[:64])
        with await self._live.follow_task(name, after=after) as subscriber:
            await self._sender.send(encode_frame("subscribed", id=frame.id, task_id=name, after=after))
            end = await self._send_events(subscriber, lambda _, tail: f'{{"type":"event","task_id":"{name}",{tail}')
        if end is not StreamEnd.CLOSING:
            await self._sender.send(encode_frame("ended", task_id=name, reason=end.value))

    async def _follow_channel(self, name: str, frame: SubscribeFrame) -> None:
        """Follow the hints about runs, which have no position, or the notifications after a number."""
        streams, space, after = self._live.streams, self._live.space, frame.after
        if isinstance(after, str) or (name == "feed" and after is not None):
            raise BadCursor("`after` must be the number of a notification; the feed has no position", after=after)
        subscribe = streams.subscribe_space if name == "feed" else partial(streams.subscribe_notifications, after=after)
        with await subscribe(space) as subscriber:
            position = None if name == "feed" else subscriber.position
            await self._sender.send(encode_frame("subscribed", id=frame.id, channel=name, after=position))
            head = f'{{"type":"event","channel":"{name}",'
            end = await self._send_events(subscriber, lambda _, tail: f"{head}{tail}")
        if end is not StreamEnd.CLOSING:
            await self._sender.send(encode_frame("ended", channel=name, reason=end.value))

    async def _follow_session(self, name: str, frame: SubscribeFrame) -> None:
        if isinstance(frame.after, int):
            raise BadCursor("the cursor of a session must be the `cursor` of one of its events", after=frame.after)
        session, new_run = await self._live.live_session(name), asyncio.Event()
        self._sessions[session.id] = session, new_run  # from here on no hint is missed
        try:
            runs = await session.start(frame.after)
            cursor = session.cursor.encode()
            await self._sender.send(encode_frame("subscribed", id=frame.id, session_id=session.id, cursor=cursor))
            async with asyncio.TaskGroup() as active:
                while True:
                    for run in runs:
                        if run.status.terminal:  # ended runs are sent one after the other, active ones concurrently
                            await self._send_run(session, run.id)
                        else:
                            active.create_task(self._send_run(session, run.id))
                    await new_run.wait()
                    new_run.clear()
                    runs = await session.new_runs()
        finally:
            del self._sessions[session.id]

    async def _send_run(self, session: LiveSession, run: RunId) -> None:
        cursor, task = session.cursor, task_id_of(run)

        def encode_event(seq: int, tail: str) -> str:
            cursor.advance(run, seq)
            head = f'{{"type":"event","session_id":"{session.id}","task_id":"{task}","cursor":"{cursor.encode()}"'
            return f"{head},{tail}"

        def encode_end() -> str:
            cursor.finish_run(run)
            return encode_frame("ended", session_id=session.id, task_id=task, reason=end.value, cursor=cursor.encode())

        try:
            after = cursor.positions.get(run, 0)
            with await self._live.streams.subscribe_run(self._live.space, run, after=after) as subscriber:
                end = await self._send_events(subscriber, encode_event)
        except NotFound:
            end = StreamEnd.GONE
        if end is not StreamEnd.CLOSING:
            await self._sender.send_encoded(encode_end)

    async def _send_events(self, subscriber: Subscriber, encode_event: _EncodeEvent) -> StreamEnd:
        """Send all events of a subscriber, and return why there are no more."""
        subscriber.on_stalled = lambda: self._sender.start_close(SocketClose.TOO_SLOW)
        while not isinstance(batch := await subscriber.next(), StreamEnd):
            if batch is None:  # a keepalive
                continue
            for index, tail in enumerate(batch.rendered(encode_event_tails)):
                await self._sender.send_encoded(partial(encode_event, batch.first + index, tail))
                if index % EVENTS_PER_TURN == EVENTS_PER_TURN - 1:
                    await asyncio.sleep(0)  # a send that completes at once does not yield to other tasks
        return batch


def _first_error(group: BaseExceptionGroup[HoldfastError]) -> HoldfastError:
    """Return the first error of a group, which caused the others."""
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
