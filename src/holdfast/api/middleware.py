"""The outermost middleware: host and origin checks, CORS, request ids, the access log, and request metrics.

Every page in a browser on this machine can reach a server on the loopback address. A foreign page is recognised by
its `Origin`, and a DNS-rebinding attack by its `Host`. Both are refused before the request is read.
"""

import asyncio
import ipaddress
import logging
import os
import time
from collections.abc import Iterable
from time import perf_counter
from typing import Final

from holdfast.api.asgi import AsgiApp, AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.errors import (
    AddressTooLong,
    BadHandshake,
    HeaderRepeated,
    HeadersTooLarge,
    HostRefused,
    OriginRefused,
    UnsupportedMediaType,
    encode_error,
    headers_of,
    status_of,
)
from holdfast.domain.errors import HoldfastError, Unavailable
from holdfast.metrics.instruments import OTHER_LABEL, Number
from holdfast.metrics.meters import Meters

MAX_URL_BYTES: Final = 16 * 1024
MAX_HEADER_BYTES: Final = 64 * 1024
"""Bytes, of names and values together."""
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_CORS_METHODS: Final = b"GET, HEAD, POST, PATCH, PUT, DELETE, OPTIONS"
_EXPOSED_HEADERS: Final = (
    b"X-Request-Id, X-Run-Id, X-Holdfast-Thread, Content-Location, ETag, Idempotency-Replayed, Retry-After"
)
_SINGLE_VALUE_HEADERS: Final = frozenset(
    {b"authorization", b"content-type", b"content-encoding", b"idempotency-key", b"last-event-id"}
)
"""Headers of which two would leave open which one is meant; `Host` and `Origin` equal nothing that is allowed then."""
_UNWRAPPED_SEND_KEY: Final = "past_the_gate"
_REFUSAL_KEY: Final = "refused"
_CROSS_SITE_VALUES: Final = frozenset({"cross-site", "same-site"})

_log: Final = logging.getLogger("holdfast.requests")


class HostOriginMiddleware:
    """An ASGI app in front of another."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        hosts: Iterable[str] = LOOPBACK_HOSTS,
        allow_ip_hosts: bool = False,
        origins: Iterable[str] = (),
        meters: Meters | None = None,
    ) -> None:
        """Let requests for `hosts` pass, and of those from pages only what `origins` and the host itself show.

        With `addresses`, also those for any address: only a name can be bound anew.
        """
        self._app = app
        self._hosts = frozenset(hosts)
        self._allow_ip_hosts = allow_ip_hosts
        self._origins = frozenset(origins)
        self._meters = meters or Meters()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer in its place."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        passage = _Exchange(scope, send, self._meters)
        try:
            headers = _read_headers(scope)
            origin = self._check(headers)
            _check_shape(scope, headers)
        except HoldfastError as refused:
            await passage.send_error(refused)
        else:
            passage.allow_origin(origin)
            if origin and _is_preflight(scope, headers):
                await passage.send_preflight(headers)
                return
            try:
                await self._app(scope, receive, passage.send)
            except asyncio.CancelledError:  # the server stops, and has waited for long enough
                await passage.send_unavailable()
        finally:
            passage.end()

    def _check(self, headers: dict[bytes, str]) -> str | None:
        """Return the foreign origin that is allowed to read the answer, if there is one."""
        host = headers.get(b"host", "")
        if not self._is_allowed_host(_host_name(host)):
            names = ", ".join(sorted(self._hosts))
            hint = "start it with `--allow-host NAME` to give it another name"
            raise HostRefused(f"this server is not `{host}`: use one of {names}, or {hint}", host=host)
        origin = headers.get(b"origin")
        if origin is None:
            if headers.get(b"sec-fetch-site") in _CROSS_SITE_VALUES and headers.get(b"sec-fetch-mode") != "navigate":
                raise _origin_refused("another site")
            return None
        if origin in (f"http://{host}", f"https://{host}"):
            return None
        if origin not in self._origins:
            raise _origin_refused(origin)
        return origin

    def _is_allowed_host(self, name: str) -> bool:
        return name in self._hosts or (self._allow_ip_hosts and _is_ip_address(name))


class _Exchange:
    """One request on its way through the gate."""

    def __init__(self, scope: AsgiScope, send: Send, meters: Meters) -> None:
        self._scope = scope
        self._send = send
        self._started_at = time.perf_counter()
        self._metrics = RequestMetrics(meters, scope, started_at=self._started_at)
        self._status = 0
        self.id = f"req_{os.urandom(8).hex()}"
        self._headers: list[tuple[bytes, bytes]] = [
            (b"x-request-id", self.id.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        scope.setdefault("state", {}).update({"request_id": self.id, _UNWRAPPED_SEND_KEY: send})

    def allow_origin(self, origin: str | None) -> None:
        """Let a foreign page read the answer."""
        if origin is not None:
            self._headers += [
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-expose-headers", _EXPOSED_HEADERS),
                (b"vary", b"Origin"),
            ]

    async def send(self, message: AsgiMessage) -> None:
        """Pass on what the app answers, under our headers."""
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self._status = message["status"]
                self._metrics.record_response(self._status, message["headers"])
                message["headers"] = [*message["headers"], *self._headers]
            case "websocket.accept":
                self._status = 101
                self._metrics.record_response(101)
            case "websocket.close" if not self._status:
                await self.send_error(
                    self._scope["state"].get(_REFUSAL_KEY) or BadHandshake("this handshake is refused")
                )
                return
            case _:
                pass
        await self._send(message)

    async def send_error(self, error: HoldfastError) -> None:
        """Answer in place of the app."""
        status = status_of(error)
        if self._scope["type"] == "websocket" and "websocket.http.response" not in (
            self._scope.get("extensions") or {}
        ):
            self._status = status
            self._metrics.record_response(status)
            await self._send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
            return
        own = [(name.lower().encode(), value.encode()) for name, value in headers_of(error).items()]
        await self._send_response(status, encode_error(error), [(b"content-type", b"application/json"), *own])

    async def send_unavailable(self) -> None:
        """Answer in place of an app that was not done in time; an answer that has begun breaks off."""
        if not self._status:
            await self.send_error(Unavailable("the server stops: ask again in a moment"))

    async def send_preflight(self, headers: dict[bytes, str]) -> None:
        """Tell a browser what an allowed page may ask for."""
        asked = headers.get(b"access-control-request-headers", "")
        allowed = [
            (b"access-control-allow-methods", _CORS_METHODS),
            (b"access-control-allow-headers", asked.encode("latin-1")),
            (b"access-control-max-age", b"600"),
        ]
        if headers.get(b"access-control-request-private-network") == "true":
            allowed.append((b"access-control-allow-private-network", b"true"))
        await self._send_response(204, b"", allowed)

    async def _send_response(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self._status = status
        self._metrics.record_response(status, headers)
        kind = "http.response" if self._scope["type"] == "http" else "websocket.http.response"
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
        all_headers = [*headers, *length, *self._headers]
        start = {"type": f"{kind}.start", "status": status, "headers": all_headers}
        await self._send(start)
        rest = {"type": f"{kind}.body", "body": body, "more_body": False}
        await self._send(rest)

    def end(self) -> None:
        """Count it, and leave a line."""
        self._metrics.record_end()
        self._log_request()

    def _log_request(self) -> None:
        """Leave a line: the method, the path without its query, the status, and how long it took."""
        if not _log.isEnabledFor(logging.INFO):
            return
        method = "WS" if self._scope["type"] == "websocket" else self._scope["method"]
        path = self._scope["raw_path"].decode("latin-1")
        took = (time.perf_counter() - self._started_at) * 1000
        said = {"method": method, "path": path, "status": self._status, "ms": round(took, 1), "request_id": self.id}
        _log.info("%s %s %d %.1f ms", method, path, self._status, took, extra={"said": said})


def unwrapped_send(scope: AsgiScope, send: Send) -> Send:
    """Return how to send straight to the server once an answer has begun, if it came through a gate.

    A stream to a thousand readers spends more on what stands between it and the server than on anything of its own.
    """
    past: Send = scope.get("state", {}).get(_UNWRAPPED_SEND_KEY, send)
    return past


def record_refusal(scope: AsgiScope, error: HoldfastError) -> None:
    """Have the gate say why a handshake is refused, when the app closes the socket without a word."""
    scope["state"][_REFUSAL_KEY] = error


def _read_headers(scope: AsgiScope) -> dict[bytes, str]:
    """Return the headers; of one that comes twice, both, so that it equals nothing that is allowed."""
    headers: dict[bytes, str] = {}
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        text = value.decode("latin-1")
        if name not in headers:
            headers[name] = text
        elif name in _SINGLE_VALUE_HEADERS:
            called = name.decode().title()
            raise HeaderRepeated(f"`{called}` is given more than once", field=called)
        else:
            headers[name] = f"{headers[name]}, {text}"
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLarge(f"the headers may have at most {MAX_HEADER_BYTES} bytes", limit=MAX_HEADER_BYTES)
    return headers


def _check_shape(scope: AsgiScope, headers: dict[bytes, str]) -> None:
    """Raise for what no route can read."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL_BYTES:
        raise AddressTooLong(f"the address may have at most {MAX_URL_BYTES} bytes", limit=MAX_URL_BYTES)
    if b"upgrade" in headers and _wants_websocket(scope, headers):
        given = "a GET of HTTP/1.1 without a body, with one `Sec-WebSocket-Key` and `Sec-WebSocket-Version: 13`"
        raise BadHandshake(f"this is no handshake of a WebSocket: it is {given}, on a connection of its own")
    coding = headers.get(b"content-encoding", "identity")
    if coding.lower() != "identity":
        raise UnsupportedMediaType(
            "the body must be sent as it is, without `Content-Encoding`", content_encoding=coding
        )


def _wants_websocket(scope: AsgiScope, headers: dict[bytes, str]) -> bool:
    """Tell whether what came as a request wants to be more; other methods know no upgrade, and mean what they say."""
    return scope["type"] == "http" and scope["method"] == "GET" and headers[b"upgrade"].lower() == "websocket"


def _host_name(host: str) -> str:
    """Return a host without its port, as it is compared."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_preflight(scope: AsgiScope, headers: dict[bytes, str]) -> bool:
    return scope["type"] == "http" and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def _origin_refused(origin: str) -> OriginRefused:
    return OriginRefused(
        f"a page of `{origin}` may not use this server: start it with `--cors-origin {origin}` to allow that"
        if "://" in origin
        else "a page of another site may not use this server: start it with `--cors-origin URL` to allow that",
        origin=origin,
    )


UNMATCHED_ROUTE: Final = "unmatched"
"""The route of a request that was refused before one was found, or that none answers."""

_COUNTED_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EVENT_STREAM: Final = b"text/event-stream"


class RequestMetrics:
    """One request as it is counted."""

    def __init__(self, meters: Meters, scope: AsgiScope, *, started_at: float) -> None:
        self._meters = meters
        self._scope = scope
        self._started_at = started_at
        self._stream: Number | None = None

    def record_response(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Take note that an answer begins; one that is a stream stays open until the request ends."""
        route, method = self._scope.get("path_template") or UNMATCHED_ROUTE, _metric_method(self._scope)
        self._meters.requests.of(route, method, str(status)).add()
        self._meters.request_seconds.of(route, method).observe(perf_counter() - self._started_at)
        if status == 101:
            self._open_stream("websocket")
        elif any(name == b"content-type" and value.startswith(_EVENT_STREAM) for name, value in headers):
            self._open_stream("sse")

    def record_end(self) -> None:
        """Take note that nothing more is sent."""
        if self._stream is not None:
            self._stream.add(-1)

    def _open_stream(self, transport: str) -> None:
        self._stream = self._meters.streams.of(transport)
        self._stream.add()


def _metric_method(scope: AsgiScope) -> str:
    if scope["type"] == "websocket":
        return "WS"
    method: str = scope["method"]
    return method if method in _COUNTED_METHODS else OTHER_LABEL
