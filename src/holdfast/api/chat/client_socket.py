"""The WebSocket of one client: it reads frames, sends subscribed events, and calls the client's remote methods."""

import asyncio
from typing import Final

import msgspec

from holdfast.api.asgi import AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.chat.live_sessions import LiveControl
from holdfast.api.chat.socket_frames import (
    FrameSender,
    OfferFrame,
    PingFrame,
    ResultFrame,
    SocketClose,
    SubscribeFrame,
    UnsubscribeFrame,
    decode_object,
    encode_error,
    encode_frame,
    frame_id,
    to_client_frame,
)
from holdfast.api.chat.subscriptions import SubscriptionSet
from holdfast.api.errors import TooDeep
from holdfast.api.streams.sse import PING
from holdfast.control.errors import Forbidden
from holdfast.control.remote_methods import MethodCallFrame, MethodClient, MethodFrame
from holdfast.control.streams.broadcast import StreamEnd, Subscriber
from holdfast.control.streams.channels import RunHint
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.space import Scope
from holdfast.domain.tool import ToolReply

MAX_FRAME_BYTES: Final = 4 * 1024 * 1024
"""Size of one frame from a client."""
MAX_UNSENT_FRAMES: Final = 256
"""Method frames that wait to be sent; more than the limit of open calls per client."""

_HINT_DECODER: Final = msgspec.json.Decoder(RunHint)


class ClientSocket:
    """One socket, from its handshake to its close."""

    def __init__(
        self, live: LiveControl, space_updates: Subscriber, scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        self._live = live
        self._space_updates = space_updates
        self._receive = receive
        self._send = send
        self._sender = FrameSender(scope, send)
        self._unsent: asyncio.Queue[MethodFrame] = asyncio.Queue(MAX_UNSENT_FRAMES)

    async def serve(self) -> None:
        """Accept the socket, and serve its client until the client disconnects or the server closes."""
        connected = self._live.methods.connected(self._live.space, send=self._enqueue)
        with self._space_updates as space_updates, connected as client:
            space_updates.on_stalled = lambda: self._sender.start_close(SocketClose.TOO_SLOW)
            await self._send({"type": "websocket.accept"})
            try:
                await self._run_loops(client)
            except* OSError:
                pass  # the client disconnected, and a send noticed it first
        await self._sender.close()

    async def _run_loops(self, client: MethodClient) -> None:
        async with asyncio.TaskGroup() as tasks:
            subscriptions = SubscriptionSet(self._live, self._sender, tasks)
            loops = (
                self._read_frames(client, subscriptions),
                self._watch_space(subscriptions),
                self._send_method_frames(client),
            )
            running = [tasks.create_task(loop) for loop in loops]
            await self._sender.finished.wait()
            subscriptions.stop()
            for task in running:
                task.cancel()

    def _enqueue(self, frame: MethodFrame) -> None:
        """Queue a frame to send; a client that reads nothing is disconnected."""
        try:
            self._unsent.put_nowait(frame)
        except asyncio.QueueFull:
            self._sender.start_close(SocketClose.TOO_SLOW)

    async def _send_method_frames(self, client: MethodClient) -> None:
        while True:
            frame = await self._unsent.get()
            if not isinstance(frame, MethodCallFrame) or client.mark_sent(frame.call_id):
                await self._sender.send(msgspec.json.encode(frame).decode())

    async def _watch_space(self, subscriptions: SubscriptionSet) -> None:
        """Send pings, notify sessions of new runs, and close the socket when the server stops."""
        while not isinstance(batch := await self._space_updates.next(), StreamEnd):
            if batch is None:
                await self._sender.send(PING)
            else:
                subscriptions.notify_new_runs(_HINT_DECODER.decode(item.data) for item in batch.items)
        self._sender.start_close(SocketClose.TOO_SLOW if batch is StreamEnd.BEHIND else SocketClose.CLOSING)

    async def _read_frames(self, client: MethodClient, subscriptions: SubscriptionSet) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive" and (raw := await self._decode(message)) is not None:
                await self._handle(raw, client, subscriptions)
        self._sender.finished.set()

    async def _decode(self, message: AsgiMessage) -> dict[str, Json] | None:
        """Return the JSON object of a frame; binary, oversized and too deeply nested frames close the socket."""
        text = message.get("text")
        if text is None:
            self._sender.start_close(SocketClose.UNSUPPORTED)
        elif len(text) > MAX_FRAME_BYTES or len(text.encode()) > MAX_FRAME_BYTES:
            self._sender.start_close(SocketClose.TOO_LARGE)
        else:
            try:
                return decode_object(text)
            except TooDeep:
                self._sender.start_close(SocketClose.TOO_DEEP)
            except HoldfastError as error:
                await self._sender.send(encode_error(error))
        return None

    async def _handle(self, raw: dict[str, Json], client: MethodClient, subscriptions: SubscriptionSet) -> None:
        try:
            frame = to_client_frame(raw)
            if isinstance(frame, OfferFrame | ResultFrame) and not self._live.may_run:
                raise Forbidden("remote methods need a key with the scope `run`", scope=Scope.RUN)
            match frame:
                case PingFrame():
                    await self._sender.send(encode_frame("pong", id=frame.id))
                case SubscribeFrame():
                    subscriptions.subscribe(frame)
                case UnsubscribeFrame():
                    await subscriptions.unsubscribe(frame)
                case OfferFrame():
                    await self._live.methods.offer(client, frame.methods, id=frame.id)
                case ResultFrame(error=str(error)):
                    client.resolve(frame.call_id, ToolReply(content=error, failed=True))
                case ResultFrame():
                    client.resolve(frame.call_id, ToolReply(content=frame.content))
        except HoldfastError as exc:
            if isinstance(exc, Invalid) and raw.get("type") == "result":
                client.reject_result(str(raw.get("call_id")), exc.message)
            await self._sender.send(encode_error(exc, id=frame_id(raw)))
