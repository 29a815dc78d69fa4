"""The WebSocket of one client: it reads frames, sends subscribed events, and calls the client's remote methods."""

import asyncio
from typing import Final

import msgspec

from holdfast.api.asgi import AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.chat.live_sessions import LiveControl
from holdfast.api.chat.socket_frames import (
    ClientFrame,
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
from holdfast.control.remote_methods import MethodCallFrame, MethodClient, MethodFrame
from holdfast.control.streams.broadcast import StreamEnd, Subscriber
from holdfast.control.streams.channels import RunHint
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.tool import ToolReply

MAX_FRAME_BYTES: Final = 4 * 1024 * 1024
"""Bytes of what a client may send at once."""
MAX_UNSENT_FRAMES: Final = 256
"""Calls, and words about them, that wait to be sent: a client is called for less than that."""

_HINT_DECODER: Final = msgspec.json.Decoder(RunHint)


class ClientSocket:
    """One socket, from its handshake to its end."""

    def __init__(
        self, live: LiveControl, space_feed: Subscriber, scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        self._live = live
        self._pulse = space_feed
        self._receive = receive
        self._accept = send
        self._wire = FrameSender(scope, send)
        self._unsent: asyncio.Queue[MethodFrame] = asyncio.Queue(MAX_UNSENT_FRAMES)

    async def serve(self) -> None:
        """Accept the socket, and serve its client until one of the two leaves."""
        with self._pulse as pulse, self._live.connected(self._tell) as client:
            pulse.on_stalled = lambda: self._wire.start_close(SocketClose.TOO_SLOW)
            await self._accept({"type": "websocket.accept"})
            try:
                await self._talk(client)
            except* OSError:
                pass  # the reader is gone, and who sends learned it first
        await self._wire.close()

    async def _talk(self, client: MethodClient) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = SubscriptionSet(self._live, self._wire, tasks)
            loops = (self._listen(client, following), self._beat(following), self._send_all(client))
            running = [tasks.create_task(loop) for loop in loops]
            await self._wire.finished.wait()
            following.stop()
            for task in running:
                task.cancel()

    def _tell(self, telling: MethodFrame) -> None:
        """Have something sent; a client that takes nothing is cut off."""
        try:
            self._unsent.put_nowait(telling)
        except asyncio.QueueFull:
            self._wire.start_close(SocketClose.TOO_SLOW)

    async def _send_all(self, client: MethodClient) -> None:
        while True:
            telling = await self._unsent.get()
            if not isinstance(telling, MethodCallFrame) or client.mark_sent(telling.call_id):
                await self._wire.send(msgspec.json.encode(telling).decode())

    async def _beat(self, following: SubscriptionSet) -> None:
        """Show signs of life, hear of new tasks, and leave when the server stops."""
        while not isinstance(found := await self._pulse.next(), StreamEnd):
            if found is None:
                await self._wire.send(PING)
            else:
                following.notify_new_runs(_HINT_DECODER.decode(item.data) for item in found.items)
        self._wire.start_close(SocketClose.TOO_SLOW if found is StreamEnd.BEHIND else SocketClose.CLOSING)

    async def _listen(self, client: MethodClient, following: SubscriptionSet) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive" and (said := await self._read(message)) is not None:
                await self._answer(said, client, following)
        self._wire.finished.set()

    async def _read(self, message: AsgiMessage) -> dict[str, Json] | None:
        """Return what a frame says; what can only be meant badly ends the socket."""
        text = message.get("text")
        if text is None:
            self._wire.start_close(SocketClose.UNSUPPORTED)
        elif len(text) > MAX_FRAME_BYTES or len(text.encode()) > MAX_FRAME_BYTES:
            self._wire.start_close(SocketClose.TOO_LARGE)
        else:
            try:
                return decode_object(text)
            except TooDeep:
                self._wire.start_close(SocketClose.TOO_DEEP)
            except HoldfastError as error:
                await self._wire.send(encode_error(error))
        return None

    async def _answer(self, said: dict[str, Json], client: MethodClient, following: SubscriptionSet) -> None:
        try:
            await self._do(to_client_frame(said), client, following)
        except HoldfastError as error:
            if isinstance(error, Invalid) and said.get("type") == "result":
                client.reject_result(str(said.get("call_id")), error.message)
            await self._wire.send(encode_error(error, id=frame_id(said)))

    async def _do(self, wish: ClientFrame, client: MethodClient, following: SubscriptionSet) -> None:
        match wish:
            case PingFrame():
                await self._wire.send(encode_frame("pong", id=wish.id))
            case SubscribeFrame():
                following.subscribe(wish)
            case UnsubscribeFrame():
                await following.unsubscribe(wish)
            case OfferFrame(methods=methods):
                self._live.offer(client, methods, id=wish.id)
            case ResultFrame():
                client.resolve(wish.call_id, _to_reply(wish))


def _to_reply(result: ResultFrame) -> ToolReply:
    """Return what a client answered, as a tool's."""
    if isinstance(result.error, str):
        return ToolReply(content=result.error, failed=True)
    return ToolReply(content=result.content)
