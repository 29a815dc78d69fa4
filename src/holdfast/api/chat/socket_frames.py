"""Frames of the client socket: the types a client may send, encoding of the server's, and the ordered sender."""

import asyncio
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.asgi import AsgiScope, Send
from holdfast.api.errors import envelope
from holdfast.api.json_body import decode_json, mismatch_error
from holdfast.api.middleware import unwrapped_send
from holdfast.api.uvicorn_protocols import close_socket
from holdfast.control.remote_methods import RemoteMethod
from holdfast.control.streams.broadcast import StreamItem
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid

FrameId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]


class _IdentifiedFrame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Something that a client sends."""

    id: FrameId | None = None
    """Chosen by the client: whatever answers the frame has it too."""


class PingFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="ping"):
    """Asks for a `pong`."""


class SubscribeFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="subscribe"):
    """Follow a task after a number of its log, or a session after a cursor."""

    task_id: FrameId | None = None
    session_id: FrameId | None = None
    after: Annotated[int, Meta(ge=0)] | str | None = None


class UnsubscribeFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="unsubscribe"):
    """Stop to follow."""

    task_id: FrameId | None = None
    session_id: FrameId | None = None


class OfferFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="offer"):
    """Offer methods, in place of all that were offered before."""

    methods: list[RemoteMethod]


class ResultFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="result"):
    """Answer a call, with its content or with an error."""

    call_id: str
    content: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.content is UNSET) == (self.error is UNSET):
            raise ValueError("give either `content` or `error`")


ClientFrame: TypeAlias = PingFrame | SubscribeFrame | UnsubscribeFrame | OfferFrame | ResultFrame

_OBJECT_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
_PING_TEXT: Final = "ping"


def decode_object(text: str) -> dict[str, Json]:
    """Return what a frame says, of whatever kind; a bare `ping` is one too."""
    if text == _PING_TEXT:
        return {"type": _PING_TEXT}
    try:
        found: dict[str, Json] = decode_json(_OBJECT_DECODER, text.encode())
    except Invalid as exc:
        raise _frame_error(exc) from exc
    return found


def to_client_frame(raw: dict[str, Json]) -> ClientFrame:
    """Return the frame that an object is."""
    try:
        frame: ClientFrame = msgspec.convert(raw, ClientFrame)
    except msgspec.ValidationError as exc:
        raise _frame_error(mismatch_error(exc, raw, ClientFrame)) from exc
    return frame


def frame_id(raw: dict[str, Json]) -> str | None:
    """Return the id of a frame, also of one that does not fit."""
    found = raw.get("id")
    return found if isinstance(found, str) and 0 < len(found) <= 128 else None


class SubscriptionTarget(NamedTuple):
    """What a subscription is about."""

    kind: str
    """`task_id` or `session_id`."""
    id: str

    @property
    def fields(self) -> dict[str, str]:
        """It, as a frame names it."""
        return {self.kind: self.id}


def subscription_target(frame: SubscribeFrame | UnsubscribeFrame) -> SubscriptionTarget:
    """Return what a subscription is about."""
    given = [
        SubscriptionTarget(kind, id) for kind in ("task_id", "session_id") if (id := getattr(frame, kind)) is not None
    ]
    if len(given) != 1:
        raise Invalid("give either `task_id` or `session_id`", field="task_id")
    return given[0]


def _frame_error(error: Invalid) -> Invalid:
    """Return what is wrong with a frame, of what would be wrong with such a body."""
    return type(error)(error.message.replace("the body", "the frame", 1), **error.details)


def encode_frame(kind: str, **fields: Json) -> str:
    """Write a frame; what is null is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return msgspec.json.encode({"type": kind, **given}).decode()


def encode_error(error: HoldfastError, **fields: Json) -> str:
    """Write what is wrong; the socket stays open."""
    given = {name: value for name, value in fields.items() if value is not None}
    problem = envelope(error).error
    return msgspec.json.encode({"type": "error", **given, "error": problem}, enc_hook=str).decode()


def encode_event_tails(items: Sequence[StreamItem]) -> list[str]:
    """Write the ends of frames that tell events: they are the same for all who follow."""
    return [f'"seq":{item.seq},"data":{item.data.decode()}}}' for item in items]


class SocketClose(IntEnum):
    """Why the server closes the socket.

    `BROKEN`, `MALFORMED`, `UNANSWERED` and `RESTARTING` are said below this app, `REVOKED` at its door.
    """

    CLOSING = 1001
    """The server stops: reconnect."""
    BROKEN = 1002
    """The client broke the rules of the protocol itself."""
    UNSUPPORTED = 1003
    """The client sent a frame of bytes."""
    MALFORMED = 1007
    """The client sent text that is not UTF-8."""
    TOO_DEEP = 1008
    """The client sent JSON that is nested too deeply."""
    TOO_LARGE = 1009
    """The client sent a frame that is too large."""
    UNANSWERED = 1011
    """The client did not answer to a ping of the protocol itself: reconnect."""
    RESTARTING = 1012
    """The server stopped before it could say more: reconnect."""
    TOO_SLOW = 4008
    """The client took nothing for too long: reconnect."""
    REVOKED = 4401
    """The key that the client came with was revoked, or has expired."""


class FrameSender:
    """One socket, as those see it who have something to say."""

    def __init__(self, scope: AsgiScope, send: Send) -> None:
        self._scope = scope
        self._send = unwrapped_send(scope, send)
        self._turn = asyncio.Lock()
        self._cut: SocketClose | None = None
        self.finished = asyncio.Event()
        """Nobody listens any more, or nobody may."""

    async def send(self, text: str) -> None:
        """Send a frame."""
        await self.send_encoded(lambda: text)

    async def send_encoded(self, encode: Callable[[], str]) -> None:
        """Send what `write` returns once all that came before is sent: it may tell how far everything is."""
        async with self._turn:
            await self._send({"type": "websocket.send", "text": encode()})

    def start_close(self, reason: SocketClose) -> None:
        """Say nothing more, and close the socket."""
        self._cut = self._cut or reason
        self.finished.set()

    async def close(self) -> None:
        """Tell the client why the socket was cut, if it was."""
        if self._cut is not None:
            reason = self._cut.name.lower().replace("_", " ")
            hurry = self._cut is SocketClose.TOO_SLOW
            await close_socket(self._scope, self._send, code=self._cut, reason=reason, fast=hurry)
