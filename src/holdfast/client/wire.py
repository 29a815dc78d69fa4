"""What the async and the sync client share: URLs, errors of responses, parsed streams, and the pace of retries."""

import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec

import holdfast.control.errors  # noqa: F401  # defines error codes
from holdfast.client.api import RunEvent
from holdfast.domain.content import Json
from holdfast.domain.errors import (
    Conflict,
    HoldfastError,
    Invalid,
    NotFound,
    NotHoldfast,
    ServerUnreachable,
    Unavailable,
    error_class_of,
)

DEFAULT_URL: Final = "http://127.0.0.1:5050"
URL_VARIABLE: Final = "HOLDFAST_URL"
API_KEY_VARIABLE: Final = "HOLDFAST_API_KEY"
"""The API key is read from this variable, because other users can see a command line."""
SPACE_VARIABLE: Final = "HOLDFAST_SPACE"
DEFAULT_RETRY_SECONDS: Final = 30.0
READ_TIMEOUT_SECONDS: Final = 60.0
"""Seconds without data after which the connection counts as lost: streams send a heartbeat every 15."""
CONNECT_TIMEOUT_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 30
"""Seconds that one request waits for a run."""
MAX_PAGE: Final = 200
FIRST_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 2.0
"""Longest delay between two attempts; the delay doubles after each."""
MAX_RETRY_DOUBLINGS: Final = 8
REMINDER_SECONDS: Final = 10.0
"""Time between two messages that the server still does not answer."""


def check_url(url: str) -> str:
    """Return the normalized URL of a server, without a trailing slash."""
    remedy = "write it like `http://127.0.0.1:5050`"
    try:
        parts = httpx2.URL(url)
        port = parts.port is None or 0 < parts.port < 2**16
        usable = parts.scheme in ("http", "https") and parts.host and port
    except httpx2.InvalidURL:
        usable = False
    if not usable:
        raise Invalid(f"`{url}` is not a valid server URL: {remedy}", field="url")
    if "?" in url or "#" in url:  # paths are appended to it
        raise Invalid(f"`{url}` is not a valid server URL, it has a `?` or a `#`: {remedy}", field="url")
    return str(httpx2.URL(url)).rstrip("/")


def check_key(key: str | None, *, source: str = API_KEY_VARIABLE) -> str:
    """Return an API key, by default that of the environment; empty if there is none."""
    key = os.environ.get(API_KEY_VARIABLE, "") if key is None else key
    if not (key.isascii() and key.isprintable() and " " not in key):
        remedy = "set it to the secret that `holdfast key create` printed"
        raise Invalid(f"{source} does not contain a valid key: {remedy}", field=source)
    return key


def path_of(*parts: str | int) -> str:
    """Return a URL path of literal and quoted parts, alternating: `path_of("/runs/", id, "/steps")`."""
    return "".join(str(part) if at % 2 == 0 else quote(str(part), safe="") for at, part in enumerate(parts))


def query_of(**parameters: Json) -> dict[str, Any]:
    """Return the query parameters that have a value."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None and value is not False
    }


class _ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    details: dict[str, Json] = {}


class _ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    error: _ErrorDetail


def response_error(status: int, body: bytes) -> HoldfastError:
    """Return the error of a response: of the class with its code, or else of the class for its status."""
    try:
        detail = msgspec.json.decode(body, type=_ErrorEnvelope).error
    except msgspec.DecodeError:
        if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
            return ServerUnreachable(f"it responded with status {status}")
        return not_holdfast_error()
    error = (error_class_of(detail.code) or _class_of_status(status))(detail.message, **detail.details)
    error.code = detail.code  # type: ignore[misc]  # a server may have codes that this client has no class for
    return error


def _class_of_status(status: int) -> type[HoldfastError]:
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        return Unavailable
    return {400: Invalid, 404: NotFound, 409: Conflict}.get(status, HoldfastError)


def not_holdfast_error() -> NotHoldfast:
    """Return the error for a response that a Holdfast server does not send."""
    return NotHoldfast("the URL is not of a Holdfast server")


@contextmanager
def map_transport_errors() -> Iterator[None]:
    """Raise `ServerUnreachable` for connection errors; `details["sent"]` says whether a request may have arrived."""
    try:
        yield
    except (httpx2.TransportError, OSError) as exc:
        sent = not isinstance(exc, httpx2.ConnectError | httpx2.ConnectTimeout | ConnectionRefusedError)
        raise ServerUnreachable(connection_reason(exc), sent=sent) from exc


def connection_reason(error: BaseException) -> str:
    """Return why a connection failed, from the first cause that says so, in our own words."""
    causes = [error]
    for cause in causes:
        below = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        causes += [each for each in (*below, cause.__cause__, cause.__context__) if each and each not in causes]
    for kinds, reason in _CONNECTION_REASONS:
        if any(isinstance(cause, kinds) for cause in causes):
            return reason
    return "the connection failed"


_CONNECTION_REASONS: Final = (
    (socket.gaierror, "its host name is not known"),
    (ssl.SSLCertVerificationError, "its certificate is not valid"),
    (ssl.SSLError, "it does not speak TLS"),
    (ConnectionRefusedError, "nothing listens there"),
    ((httpx2.TimeoutException, TimeoutError), "it does not answer"),
    ((httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError, ConnectionError), "it closed the connection"),
)


class SseParser:
    """Reads events from the chunks of an SSE stream; an incomplete last one is dropped."""

    def __init__(self) -> None:
        self._seq = 0
        self._partial_line = b""

    def feed(self, chunk: bytes) -> Iterator[RunEvent]:
        """Yield the events that a chunk completes."""
        # Only a line feed ends a line: `splitlines` would also split at other characters.
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if field == b"id":
                self._seq = int(value)
            elif field == b"data":
                yield RunEvent(seq=self._seq, data=value)


class Outage:
    """The pace of attempts while a server does not answer: how long to wait, when to give up, and what to say."""

    def __init__(
        self,
        url: str,
        *,
        retry_seconds: float,
        notify: Callable[[str], None] | None = None,
        reminder_seconds: float = REMINDER_SECONDS,
    ) -> None:
        """`notify` gets a message when the connection is lost and restored, and now and then in between."""
        self._url = url
        self._retry_seconds = retry_seconds
        self._notify = notify or (lambda message: None)
        self._reminder_seconds = reminder_seconds
        self._lost_at: float | None = None
        self._notified_at = 0.0
        self._failures = 0

    def delay(self, error: HoldfastError) -> float:
        """Return the seconds until the next attempt; raise `error` if the time for attempts is over."""
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = self._notified_at = now
            if self._retry_seconds > 0:
                self._notify(f"connection to {self._url} lost ({error}): the run is safe, reconnecting")
        elif now >= self._notified_at + self._reminder_seconds:
            self._notified_at = now
            waited = f"no answer from {self._url} for {now - self._lost_at:.0f} s ({error})"
            self._notify(f"{waited}: the run continues once a server runs again, Ctrl-C detaches")
        delay = min(FIRST_RETRY_SECONDS * 2**self._failures, MAX_RETRY_SECONDS)
        self._failures = min(self._failures + 1, MAX_RETRY_DOUBLINGS)
        wait = max(random.uniform(delay / 2, delay), float(error.details.get("retry_after", 0)))
        if now + wait > self._lost_at + self._retry_seconds:
            raise self.final(error) from error
        return wait

    def final(self, error: HoldfastError) -> HoldfastError:
        """Return the error of a client that makes no further attempt."""
        if not isinstance(error, ServerUnreachable):
            return error
        remedy = "start one with `holdfast serve`, or pass its URL with `--url`"
        return ServerUnreachable(f"no server at {self._url} ({error}): {remedy}", **error.details)

    def restored(self, position: int) -> None:
        """Record that the server answers again."""
        if self._lost_at is not None:
            self._lost_at = None
            self._notify(f"reconnected, after event {position}")

    def progressed(self) -> None:
        """Record that data arrived: the next outage starts with a short delay."""
        self._failures = 0
