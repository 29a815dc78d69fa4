"""One client's socket: it is listened to, told what it follows, and asked for what it offers."""

import asyncio
from typing import Final

import msgspec

from holdfast.api.asgi import Message, Receive, Scope, Send
from holdfast.api.chat.socket.following import Following
from holdfast.api.chat.socket.frames import (
    Offer,
    Ping,
    Result,
    Said,
    Subscribe,
    Unsubscribe,
    as_frame,
    id_of,
    read_object,
)
from holdfast.api.chat.socket.saying import frame, refusal
from holdfast.api.chat.socket.wire import SocketClose, Wire
from holdfast.api.errors import TooDeep
from holdfast.api.streams.frames import PING
from holdfast.control.feeds.feed import Ending
from holdfast.control.feeds.follower import Follower
from holdfast.control.feeds.space_feed import RunHint
from holdfast.control.live.live import LiveControl
from holdfast.control.remote_methods.client import Client
from holdfast.control.remote_methods.telling import MethodCalled, Telling
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.tool import ToolReply

MAX_FRAME: Final = 4 * 1024 * 1024
"""Bytes of what a client may send at once."""
MOST_UNSENT: Final = 256
"""Calls, and words about them, that wait to be sent: a client is called for less than that."""

_HINT: Final = msgspec.json.Decoder(RunHint)


class ClientSocket:
    """One socket, from its handshake to its end."""

    def __init__(self, live: LiveControl, pulse: Follower, scope: Scope, receive: Receive, send: Send) -> None:
        self._live = live
        self._pulse = pulse
        self._receive = receive
        self._accept = send
        self._wire = Wire(scope, send)
        self._unsent: asyncio.Queue[Telling] = asyncio.Queue(MOST_UNSENT)

    async def serve(self) -> None:
        """Accept the socket, and serve its client until one of the two leaves."""
        with self._pulse as pulse, self._live.connected(self._tell) as client:
            pulse.cut_off = lambda: self._wire.cut(SocketClose.TOO_SLOW)
            await self._accept({"type": "websocket.accept"})
            try:
                await self._talk(client)
            except* OSError:
                pass  # the reader is gone, and who sends learned it first
        await self._wire.close()

    async def _talk(self, client: Client) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = Following(self._live, self._wire, tasks)
            loops = (self._listen(client, following), self._beat(following), self._send_all(client))
            running = [tasks.create_task(loop) for loop in loops]
            await self._wire.over.wait()
            following.stop()
            for task in running:
                task.cancel()

    def _tell(self, telling: Telling) -> None:
        """Have something sent; a client that takes nothing is cut off."""
        try:
            self._unsent.put_nowait(telling)
        except asyncio.QueueFull:
            self._wire.cut(SocketClose.TOO_SLOW)

    async def _send_all(self, client: Client) -> None:
        while True:
            telling = await self._unsent.get()
            if not isinstance(telling, MethodCalled) or client.sending(telling.call_id):
                await self._wire.say(msgspec.json.encode(telling).decode())

    async def _beat(self, following: Following) -> None:
        """Show signs of life, hear of new tasks, and leave when the server stops."""
        while not isinstance(found := await self._pulse.next(), Ending):
            if found is None:
                await self._wire.say(PING)
            else:
                following.hear(_HINT.decode(item.data) for item in found.items)
        self._wire.cut(SocketClose.TOO_SLOW if found is Ending.BEHIND else SocketClose.CLOSING)

    async def _listen(self, client: Client, following: Following) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive" and (said := await self._read(message)) is not None:
                await self._answer(said, client, following)
        self._wire.over.set()

    async def _read(self, message: Message) -> dict[str, Json] | None:
        """Return what a frame says; what can only be meant badly ends the socket."""
        text = message.get("text")
        if text is None:
            self._wire.cut(SocketClose.UNSUPPORTED)
        elif len(text) > MAX_FRAME or len(text.encode()) > MAX_FRAME:
            self._wire.cut(SocketClose.TOO_LARGE)
        else:
            try:
                return read_object(text)
            except TooDeep:
                self._wire.cut(SocketClose.TOO_DEEP)
            except HoldfastError as error:
                await self._wire.say(refusal(error))
        return None

    async def _answer(self, said: dict[str, Json], client: Client, following: Following) -> None:
        try:
            await self._do(as_frame(said), client, following)
        except HoldfastError as error:
            if isinstance(error, Invalid) and said.get("type") == "result":
                client.spoil(str(said.get("call_id")), error.message)
            await self._wire.say(refusal(error, id=id_of(said)))

    async def _do(self, wish: Said, client: Client, following: Following) -> None:
        match wish:
            case Ping():
                await self._wire.say(frame("pong", id=wish.id))
            case Subscribe():
                following.subscribe(wish)
            case Unsubscribe():
                await following.unsubscribe(wish)
            case Offer(methods=methods):
                self._live.offer(client, methods, id=wish.id)
            case Result():
                client.answer(wish.call_id, _reply(wish))


def _reply(result: Result) -> ToolReply:
    """Return what a client answered, as a tool's."""
    if isinstance(result.error, str):
        return ToolReply(content=result.error, failed=True)
    return ToolReply(content=result.content)
