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
from http import HTTPStatus
from typing import Final

from holdfast.api.asgi import BROWSER_HEADERS, AsgiApp, AsgiMessage, AsgiScope, Receive, Send
from holdfast.api.auth.tickets import take_ticket
from holdfast.api.errors import (
    MAX_URL_BYTES,
    BadHandshake,
    HeaderRepeated,
    HeadersTooLarge,
    HostRefused,
    OriginRefused,
    Refused,
    UnsupportedMediaType,
    address_too_long,
    encode_error,
    headers_of,
    status_of,
)
from holdfast.domain.errors import HoldfastError, Unavailable
from holdfast.metrics.instruments import OTHER_LABEL, Number
from holdfast.metrics.meters import Meters

MAX_HEADER_BYTES: Final = 64 * 1024
"""Bytes of all header names and values together."""
MAX_LOGGED_REFUSAL_CHARS: Final = 500
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_CORS_METHODS: Final = b"GET, HEAD, POST, PATCH, PUT, DELETE, OPTIONS"
_EXPOSED_HEADERS: Final = (
    b"X-Request-Id, X-Run-Id, X-Holdfast-Thread, Content-Location, ETag, Idempotency-Replayed, Retry-After"
)
_SINGLE_VALUE_HEADERS: Final = frozenset(
    {b"authorization", b"content-type", b"content-encoding", b"idempotency-key", b"last-event-id"}
)
"""Headers that must not be repeated. A repeated `Host` or `Origin` matches no allowed value anyway."""
_UNWRAPPED_SEND_KEY: Final = "holdfast_unwrapped_send"
_REFUSAL_KEY: Final = "holdfast_refusal"
_CROSS_SITE_VALUES: Final = frozenset({"cross-site", "same-site"})

UNMATCHED_ROUTE: Final = "unmatched"
"""The route label of a request that matches no route, or was refused before routing."""
_COUNTED_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_log: Final = logging.getLogger("holdfast.requests")
_RPC_PATH: Final = "/rpc/"
"""Calls of workers, which are logged only if they fail."""


class HostOriginMiddleware:
    """The outermost ASGI middleware."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        hosts: Iterable[str] = LOOPBACK_HOSTS,
        allow_ip_hosts: bool = False,
        origins: Iterable[str] = (),
        meters: Meters | None = None,
    ) -> None:
        """Accept requests for `hosts` that come without an origin, from the host itself, or from `origins`.

        With `allow_ip_hosts`, any IP address is accepted as the host: DNS rebinding needs a name.
        """
        self._app = app
        self._hosts = frozenset(hosts)
        self._allow_ip_hosts = allow_ip_hosts
        self._origins = frozenset(origins)
        self._meters = meters or Meters()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or respond with an error."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._meters)
        url_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        take_ticket(scope)
        try:
            headers = _read_headers(scope)
            origin = self._check_origin(headers)
            _check_shape(scope, headers, url_bytes=url_bytes)
        except HoldfastError as error:
            exchange.log_refusal(error)
            await exchange.send_error(error)
        else:
            exchange.allow_origin(origin)
            if origin and _is_preflight(scope, headers):
                await exchange.send_preflight(headers)
                return
            try:
                await self._app(scope, receive, exchange.send)
            except asyncio.CancelledError:  # the grace period of the shutdown is over
                await exchange.send_unavailable()
        finally:
            exchange.end()

    def _check_origin(self, headers: dict[bytes, str]) -> str | None:
        """Check `Host` and `Origin`; return the origin if it is an allowed foreign one."""
        host = headers.get(b"host", "")
        name, colon, port = host.rpartition(":")
        name = (name if colon and port.isdecimal() else host).lower()
        if name not in self._hosts and not (self._allow_ip_hosts and _is_ip_address(name)):
            names = ", ".join(sorted(self._hosts))
            hint = "allow it with `--allow-host NAME` (`allow_hosts` of `holdfast.asgi`)"
            raise HostRefused(f"the host `{host}` is not allowed: use one of {names}, or {hint}", host=host)
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


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: AsgiScope, send: Send, meters: Meters) -> None:
        self._scope = scope
        self._send = send
        self._started_at = time.perf_counter()
        self._meters = meters
        self._stream: Number | None = None
        self._status = 0
        self.id = f"req_{os.urandom(8).hex()}"
        self._headers: list[tuple[bytes, bytes]] = [
            (b"x-request-id", self.id.encode()),
        ]
        scope.setdefault("state", {}).update({"request_id": self.id, _UNWRAPPED_SEND_KEY: send})

    def allow_origin(self, origin: str | None) -> None:
        """Add the CORS headers for a foreign origin."""
        if origin is not None:
            self._headers += [
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-expose-headers", _EXPOSED_HEADERS),
                (b"vary", b"Origin"),
            ]

    async def send(self, message: AsgiMessage) -> None:
        """Send a message of the app, with the headers of this middleware."""
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self._record_response(message["status"], message["headers"])
                given = {name.lower() for name, _ in message["headers"]}
                defaults = (header for header in BROWSER_HEADERS if header[0] not in given)
                message["headers"] = [*message["headers"], *defaults, *self._headers]
            case "websocket.accept":
                self._record_response(101)
            case "websocket.close" if not self._status:
                await self.send_error(
                    self._scope["state"].get(_REFUSAL_KEY) or BadHandshake("the handshake is refused")
                )
                return
            case _:
                pass
        await self._send(message)

    async def send_error(self, error: HoldfastError) -> None:
        """Respond with an error in place of the app."""
        status = status_of(error)
        if self._scope["type"] == "websocket" and "websocket.http.response" not in (
            self._scope.get("extensions") or {}
        ):
            self._record_response(status)
            await self._send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
            return
        own = [(name.lower().encode(), value.encode()) for name, value in headers_of(error).items()]
        await self._send_response(status, encode_error(error), [(b"content-type", b"application/json"), *own])

    async def send_unavailable(self) -> None:
        """Respond with 503 in place of an app that did not finish in time, unless its response has begun."""
        if not self._status:
            await self.send_error(Unavailable("the server is shutting down: retry in a moment"))

    async def send_preflight(self, headers: dict[bytes, str]) -> None:
        """Respond to a CORS preflight request of an allowed origin."""
        requested = headers.get(b"access-control-request-headers", "")
        allowed = [
            (b"access-control-allow-methods", _CORS_METHODS),
            (b"access-control-allow-headers", requested.encode("latin-1")),
            (b"access-control-max-age", b"600"),
        ]
        if headers.get(b"access-control-request-private-network") == "true":
            allowed.append((b"access-control-allow-private-network", b"true"))
        await self._send_response(204, b"", allowed)

    async def _send_response(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        kind = "http.response" if self._scope["type"] == "http" else "websocket.http.response"
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
        await self.send({"type": f"{kind}.start", "status": status, "headers": [*headers, *length]})
        await self._send({"type": f"{kind}.body", "body": body, "more_body": False})

    def _record_response(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Record the status and the metrics of a response; a stream counts as open until the request ends."""
        self._status = status
        route, method = self._scope.get("path_template") or UNMATCHED_ROUTE, "WS"
        if self._scope["type"] != "websocket":
            method = self._scope["method"] if self._scope["method"] in _COUNTED_METHODS else OTHER_LABEL
        self._meters.requests.of(route, method, str(status)).add()
        self._meters.request_seconds.of(route, method).observe(time.perf_counter() - self._started_at)
        is_sse = any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers)
        if status == 101 or is_sse:
            self._stream = self._meters.streams.of("sse" if is_sse else "websocket")
            self._stream.add()

    def log_refusal(self, error: HoldfastError) -> None:
        """Log a refused host or origin: a browser does not show the response to the page."""
        if isinstance(error, Refused):
            reason = "".join(each if each.isprintable() else "?" for each in error.message[:MAX_LOGGED_REFUSAL_CHARS])
            _log.warning("refused %s %s: %s", self._method, self._path, reason, extra={"fields": {"code": error.code}})

    @property
    def _method(self) -> str:
        return "WS" if self._scope["type"] == "websocket" else str(self._scope["method"])

    @property
    def _path(self) -> str:
        return str(self._scope["raw_path"].decode("latin-1"))

    def end(self) -> None:
        """Record the end of the request, and log its method, path without query, status and duration."""
        if self._stream is not None:
            self._stream.add(-1)
        method, path = self._method, self._path
        routine = path.startswith(_RPC_PATH) and self._status < HTTPStatus.BAD_REQUEST  # several times a second
        if not _log.isEnabledFor(logging.DEBUG if routine else logging.INFO):
            return
        elapsed_ms = (time.perf_counter() - self._started_at) * 1000
        fields = {
            "method": method,
            "path": path,
            "status": self._status,
            "ms": round(elapsed_ms, 1),
            "request_id": self.id,
        }
        level = logging.DEBUG if routine else logging.INFO
        _log.log(level, "%s %s %d %.1f ms", method, path, self._status, elapsed_ms, extra={"fields": fields})


def unwrapped_send(scope: AsgiScope, send: Send) -> Send:
    """Return the `send` of the server, for use once a response has begun; `send` itself without the middleware.

    A stream to a thousand subscribers spends more time in the layers between it and the server than in its own code.
    """
    unwrapped: Send = scope.get("state", {}).get(_UNWRAPPED_SEND_KEY, send)
    return unwrapped


def record_refusal(scope: AsgiScope, error: HoldfastError) -> None:
    """Record why a handshake is refused, for the response after the app closes the socket without a reason."""
    scope["state"][_REFUSAL_KEY] = error


def _read_headers(scope: AsgiScope) -> dict[bytes, str]:
    """Return the headers by name; the values of a repeated header are joined, so that they match no allowed value."""
    headers: dict[bytes, str] = {}
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        text = value.decode("latin-1")
        if name not in headers:
            headers[name] = text
        elif name in _SINGLE_VALUE_HEADERS:
            field = name.decode().title()
            raise HeaderRepeated(f"`{field}` is sent more than once: send it once", field=field)
        else:
            headers[name] = f"{headers[name]}, {text}"
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLarge(f"the headers may have at most {MAX_HEADER_BYTES} bytes", limit=MAX_HEADER_BYTES)
    return headers


def _check_shape(scope: AsgiScope, headers: dict[bytes, str], *, url_bytes: int) -> None:
    """Raise for a request that no route can accept: too long, a bad handshake, or an encoded body."""
    if url_bytes > MAX_URL_BYTES:
        raise address_too_long()
    # A valid handshake has the scope type `websocket`; methods other than GET ignore `Upgrade`.
    if headers.get(b"upgrade", "").lower() == "websocket" and scope["type"] == "http" and scope["method"] == "GET":
        expected = "a GET of HTTP/1.1 without a body, with one `Sec-WebSocket-Key` and `Sec-WebSocket-Version: 13`"
        raise BadHandshake(f"the WebSocket handshake is not valid: send {expected}, on a connection of its own")
    coding = headers.get(b"content-encoding", "identity")
    if coding.lower() != "identity":
        raise UnsupportedMediaType(
            "the body must not be encoded: send it without `Content-Encoding`", content_encoding=coding
        )


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
        f"the origin `{origin}` is not allowed: start the server with `--cors-origin {origin}`"
        if "://" in origin
        else "requests from other sites are not allowed: start the server with `--cors-origin URL`",
        origin=origin,
    )
