"""The gate that every request goes through: it is for this host, from no foreign page, and it leaves a line in the log.

A server on the loopback address is reached by every page that a browser on this machine shows. Such a page names itself
in `Origin`, and one whose name was bound anew to this address names itself in `Host`. Both are refused before
anything is read.
"""

import asyncio
import ipaddress
import logging
import os
import time
from collections.abc import Iterable
from typing import Final

from holdfast.api.asgi import App, Message, Receive, Scope, Send
from holdfast.api.counting import RequestCounts
from holdfast.api.errors import (
    AddressTooLong,
    BadHandshake,
    HeaderRepeated,
    HeadersTooLarge,
    HostRefused,
    OriginRefused,
    UnsupportedMediaType,
    encoded,
    headers_of,
    status_of,
)
from holdfast.domain.errors import HoldfastError, Unavailable
from holdfast.metrics.meters import Meters

MAX_ADDRESS: Final = 16 * 1024
MAX_HEADERS: Final = 64 * 1024
"""Bytes, of names and values together."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_METHODS: Final = b"GET, HEAD, POST, PATCH, PUT, DELETE, OPTIONS"
_EXPOSED: Final = (
    b"X-Request-Id, X-Run-Id, X-Holdfast-Thread, Content-Location, ETag, Idempotency-Replayed, Retry-After"
)
_ONCE: Final = frozenset({b"authorization", b"content-type", b"content-encoding", b"idempotency-key", b"last-event-id"})
"""Headers of which two would leave open which one is meant; `Host` and `Origin` equal nothing that is allowed then."""
_SEND: Final = "past_the_gate"
_REFUSED: Final = "refused"
_FOREIGN: Final = frozenset({"cross-site", "same-site"})

_log: Final = logging.getLogger("holdfast.requests")


class Gate:
    """An ASGI app in front of another."""

    def __init__(
        self,
        app: App,
        *,
        hosts: Iterable[str] = LOOPBACK,
        addresses: bool = False,
        origins: Iterable[str] = (),
        meters: Meters | None = None,
    ) -> None:
        """Let requests for `hosts` pass, and of those from pages only what `origins` and the host itself show.

        With `addresses`, also those for any address: only a name can be bound anew.
        """
        self._app = app
        self._hosts = frozenset(hosts)
        self._addresses = addresses
        self._origins = frozenset(origins)
        self._meters = meters or Meters()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer in its place."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        passage = _Passage(scope, send, self._meters)
        try:
            headers = _headers(scope)
            origin = self._check(headers)
            _check_form(scope, headers)
        except HoldfastError as refused:
            await passage.refuse(refused)
        else:
            passage.allow(origin)
            if origin and _is_preflight(scope, headers):
                await passage.preflight(headers)
                return
            try:
                await self._app(scope, receive, passage.send)
            except asyncio.CancelledError:  # the server stops, and has waited for long enough
                await passage.give_up()
        finally:
            passage.end()

    def _check(self, headers: dict[bytes, str]) -> str | None:
        """Return the foreign origin that is allowed to read the answer, if there is one."""
        host = headers.get(b"host", "")
        if not self._is_ours(_name(host)):
            names = ", ".join(sorted(self._hosts))
            hint = "start it with `--allow-host NAME` to give it another name"
            raise HostRefused(f"this server is not `{host}`: use one of {names}, or {hint}", host=host)
        origin = headers.get(b"origin")
        if origin is None:
            if headers.get(b"sec-fetch-site") in _FOREIGN and headers.get(b"sec-fetch-mode") != "navigate":
                raise _foreign("another site")
            return None
        if origin in (f"http://{host}", f"https://{host}"):
            return None
        if origin not in self._origins:
            raise _foreign(origin)
        return origin

    def _is_ours(self, name: str) -> bool:
        return name in self._hosts or (self._addresses and _is_address(name))


class _Passage:
    """One request on its way through the gate."""

    def __init__(self, scope: Scope, send: Send, meters: Meters) -> None:
        self._scope = scope
        self._send = send
        self._begun = time.perf_counter()
        self._counts = RequestCounts(meters, scope, begun=self._begun)
        self._status = 0
        self.id = f"req_{os.urandom(8).hex()}"
        self._headers: list[tuple[bytes, bytes]] = [
            (b"x-request-id", self.id.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        scope.setdefault("state", {}).update({"request_id": self.id, _SEND: send})

    def allow(self, origin: str | None) -> None:
        """Let a foreign page read the answer."""
        if origin is not None:
            self._headers += [
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]

    async def send(self, message: Message) -> None:
        """Pass on what the app answers, under our headers."""
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self._status = message["status"]
                self._counts.answered(self._status, message["headers"])
                message["headers"] = [*message["headers"], *self._headers]
            case "websocket.accept":
                self._status = 101
                self._counts.answered(101)
            case "websocket.close" if not self._status:
                await self.refuse(self._scope["state"].get(_REFUSED) or BadHandshake("this handshake is refused"))
                return
            case _:
                pass
        await self._send(message)

    async def refuse(self, refused: HoldfastError) -> None:
        """Answer in place of the app."""
        status = status_of(refused)
        if self._scope["type"] == "websocket" and "websocket.http.response" not in (
            self._scope.get("extensions") or {}
        ):
            self._status = status
            self._counts.answered(status)
            await self._send({"type": "websocket.close", "code": 1008, "reason": refused.message[:120]})
            return
        own = [(name.lower().encode(), value.encode()) for name, value in headers_of(refused).items()]
        await self._answer(status, encoded(refused), [(b"content-type", b"application/json"), *own])

    async def give_up(self) -> None:
        """Answer in place of an app that was not done in time; an answer that has begun breaks off."""
        if not self._status:
            await self.refuse(Unavailable("the server stops: ask again in a moment"))

    async def preflight(self, headers: dict[bytes, str]) -> None:
        """Tell a browser what an allowed page may ask for."""
        asked = headers.get(b"access-control-request-headers", "")
        allowed = [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", asked.encode("latin-1")),
            (b"access-control-max-age", b"600"),
        ]
        if headers.get(b"access-control-request-private-network") == "true":
            allowed.append((b"access-control-allow-private-network", b"true"))
        await self._answer(204, b"", allowed)

    async def _answer(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self._status = status
        self._counts.answered(status, headers)
        kind = "http.response" if self._scope["type"] == "http" else "websocket.http.response"
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
        all_headers = [*headers, *length, *self._headers]
        start = {"type": f"{kind}.start", "status": status, "headers": all_headers}
        await self._send(start)
        rest = {"type": f"{kind}.body", "body": body, "more_body": False}
        await self._send(rest)

    def end(self) -> None:
        """Count it, and leave a line."""
        self._counts.ended()
        self._log()

    def _log(self) -> None:
        """Leave a line: the method, the path without its query, the status, and how long it took."""
        if not _log.isEnabledFor(logging.INFO):
            return
        method = "WS" if self._scope["type"] == "websocket" else self._scope["method"]
        path = self._scope["raw_path"].decode("latin-1")
        took = (time.perf_counter() - self._begun) * 1000
        said = {"method": method, "path": path, "status": self._status, "ms": round(took, 1), "request_id": self.id}
        _log.info("%s %s %d %.1f ms", method, path, self._status, took, extra={"said": said})


def past_the_gate(scope: Scope, send: Send) -> Send:
    """Return how to send straight to the server once an answer has begun, if it came through a gate.

    A stream to a thousand readers spends more on what stands between it and the server than on anything of its own.
    """
    past: Send = scope.get("state", {}).get(_SEND, send)
    return past


def note_refusal(scope: Scope, error: HoldfastError) -> None:
    """Have the gate say why a handshake is refused, when the app closes the socket without a word."""
    scope["state"][_REFUSED] = error


def _headers(scope: Scope) -> dict[bytes, str]:
    """Return the headers; of one that comes twice, both, so that it equals nothing that is allowed."""
    headers: dict[bytes, str] = {}
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        text = value.decode("latin-1")
        if name not in headers:
            headers[name] = text
        elif name in _ONCE:
            called = name.decode().title()
            raise HeaderRepeated(f"`{called}` is given more than once", field=called)
        else:
            headers[name] = f"{headers[name]}, {text}"
    if size > MAX_HEADERS:
        raise HeadersTooLarge(f"the headers may have at most {MAX_HEADERS} bytes", limit=MAX_HEADERS)
    return headers


def _check_form(scope: Scope, headers: dict[bytes, str]) -> None:
    """Raise for what no route can read."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_ADDRESS:
        raise AddressTooLong(f"the address may have at most {MAX_ADDRESS} bytes", limit=MAX_ADDRESS)
    if b"upgrade" in headers and _asks_for_socket(scope, headers):
        given = "a GET of HTTP/1.1 without a body, with one `Sec-WebSocket-Key` and `Sec-WebSocket-Version: 13`"
        raise BadHandshake(f"this is no handshake of a WebSocket: it is {given}, on a connection of its own")
    coding = headers.get(b"content-encoding", "identity")
    if coding.lower() != "identity":
        raise UnsupportedMediaType(
            "the body must be sent as it is, without `Content-Encoding`", content_encoding=coding
        )


def _asks_for_socket(scope: Scope, headers: dict[bytes, str]) -> bool:
    """Tell whether what came as a request wants to be more; other methods know no upgrade, and mean what they say."""
    return scope["type"] == "http" and scope["method"] == "GET" and headers[b"upgrade"].lower() == "websocket"


def _name(host: str) -> str:
    """Return a host without its port, as it is compared."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_preflight(scope: Scope, headers: dict[bytes, str]) -> bool:
    return scope["type"] == "http" and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def _foreign(origin: str) -> OriginRefused:
    return OriginRefused(
        f"a page of `{origin}` may not use this server: start it with `--cors-origin {origin}` to allow that"
        if "://" in origin
        else "a page of another site may not use this server: start it with `--cors-origin URL` to allow that",
        origin=origin,
    )
