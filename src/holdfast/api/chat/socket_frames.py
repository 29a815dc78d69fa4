"""Frames of the client socket: types of client frames, encoding of server frames, and the ordered sender."""

import asyncio
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

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

SpaceChannelName: TypeAlias = Literal["feed", "notifications"]
"""`feed`: status hints about the runs of the space, for lists. `notifications`: its notifications."""
FrameId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]


class _IdentifiedFrame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A frame from a client."""

    id: FrameId | None = None
    """Chosen by the client; the frames that answer this one repeat it."""


class PingFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="ping"):
    """Request a `pong`."""


class SubscribeFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="subscribe"):
    """Subscribe to a task after an event number, to a session after a cursor, or to a channel of the space."""

    task_id: FrameId | None = None
    session_id: FrameId | None = None
    channel: SpaceChannelName | None = None
    after: Annotated[int, Meta(ge=0)] | str | None = None


class UnsubscribeFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="unsubscribe"):
    """End a subscription."""

    task_id: FrameId | None = None
    session_id: FrameId | None = None
    channel: SpaceChannelName | None = None


class OfferFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="offer"):
    """Offer methods, replacing all that the client offered before."""

    methods: list[RemoteMethod]


class ResultFrame(_IdentifiedFrame, frozen=True, kw_only=True, tag="result"):
    """The result of a method call: content or an error."""

    call_id: str
    content: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.content is UNSET) == (self.error is UNSET):
            raise ValueError("send either `content` or `error`")


ClientFrame: TypeAlias = PingFrame | SubscribeFrame | UnsubscribeFrame | OfferFrame | ResultFrame

_OBJECT_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def decode_object(text: str) -> dict[str, Json]:
    """Return the JSON object of a frame; a bare `ping` is a ping frame."""
    if text == "ping":
        return {"type": "ping"}
    try:
        raw: dict[str, Json] = decode_json(_OBJECT_DECODER, text.encode())
    except Invalid as exc:
        raise _frame_error(exc) from exc
    return raw


def to_client_frame(raw: dict[str, Json]) -> ClientFrame:
    """Return a decoded object as a typed frame."""
    try:
        frame: ClientFrame = msgspec.convert(raw, ClientFrame)
    except msgspec.ValidationError as exc:
        raise _frame_error(mismatch_error(exc, raw, ClientFrame)) from exc
    return frame


def frame_id(raw: dict[str, Json]) -> str | None:
    """Return the id of a frame, even of an invalid frame."""
    value = raw.get("id")
    return value if isinstance(value, str) and 0 < len(value) <= 128 else None


class SubscriptionTarget(NamedTuple):
    """The task, session or channel of a subscription."""

    kind: str
    """`task_id`, `session_id` or `channel`."""
    id: str

    @property
    def fields(self) -> dict[str, str]:
        """The target as a field of a frame."""
        return {self.kind: self.id}


def subscription_target(frame: SubscribeFrame | UnsubscribeFrame) -> SubscriptionTarget:
    """Return the task, session or channel that a frame names."""
    named = [(kind, getattr(frame, kind)) for kind in ("task_id", "session_id", "channel")]
    targets = [SubscriptionTarget(kind, name) for kind, name in named if name is not None]
    if len(targets) != 1:
        raise Invalid("send one of `task_id`, `session_id` and `channel`", field="task_id")
    return targets[0]


def _frame_error(error: Invalid) -> Invalid:
    """Return the error of a body with the word "frame" in its message."""
    return type(error)(error.message.replace("the body", "the frame", 1), **error.details)


def encode_frame(kind: str, **fields: Json) -> str:
    """Encode a frame without its null fields."""
    set_fields = {name: value for name, value in fields.items() if value is not None}
    return msgspec.json.encode({"type": kind, **set_fields}, enc_hook=str).decode()


def encode_error(error: HoldfastError, **fields: Json) -> str:
    """Encode an `error` frame; it does not close the socket."""
    return encode_frame("error", **fields, error=envelope(error).error)


def encode_event_tails(items: Sequence[StreamItem]) -> list[str]:
    """Encode the ends of event frames, which are the same for all subscribers."""
    return [f'"seq":{item.seq},"data":{item.data.decode()}}}' for item in items]


class SocketClose(IntEnum):
    """The close code of the socket.

    The WebSocket server sends `BROKEN`, `MALFORMED`, `UNANSWERED` and `RESTARTING`, the auth middleware `REVOKED`.
    """

    CLOSING = 1001
    """The server stops: reconnect."""
    BROKEN = 1002
    """The client violated the WebSocket protocol."""
    UNSUPPORTED = 1003
    """The client sent a binary frame."""
    MALFORMED = 1007
    """The client sent text that is not UTF-8."""
    TOO_DEEP = 1008
    """The client sent JSON that is nested too deeply."""
    TOO_LARGE = 1009
    """The client sent a frame that is too large."""
    UNANSWERED = 1011
    """The client did not answer a WebSocket ping: reconnect."""
    RESTARTING = 1012
    """The server restarts: reconnect."""
    TOO_SLOW = 4008
    """The client read nothing for too long: reconnect."""
    REVOKED = 4401
    """The API key of the client was revoked, or has expired."""


class FrameSender:
    """Sends frames to one socket, one at a time, and closes it."""

    def __init__(self, scope: AsgiScope, send: Send) -> None:
        self._scope = scope
        self._send = unwrapped_send(scope, send)
        self._lock = asyncio.Lock()
        self._close_reason: SocketClose | None = None
        self.finished = asyncio.Event()
        """Set when the client has disconnected, or the server is closing the socket."""

    async def send(self, text: str) -> None:
        """Send a frame."""
        await self.send_encoded(lambda: text)

    async def send_encoded(self, encode: Callable[[], str]) -> None:
        """Send the result of `encode`, called after all earlier frames were sent, so that it can encode a cursor."""
        async with self._lock:
            await self._send({"type": "websocket.send", "text": encode()})

    def start_close(self, reason: SocketClose) -> None:
        """Start closing the socket; the first reason wins."""
        self._close_reason = self._close_reason or reason
        self.finished.set()

    async def close(self) -> None:
        """Send the close frame, if the server closes the socket."""
        if (code := self._close_reason) is not None:
            reason = code.name.lower().replace("_", " ")
            fast = code is SocketClose.TOO_SLOW
            await close_socket(self._scope, self._send, code=code, reason=reason, fast=fast)
