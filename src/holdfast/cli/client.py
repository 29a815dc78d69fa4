"""HTTP client of a Holdfast server: errors, runs and API keys."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from holdfast.cli.output import ServerErrorDetail, ServerRefused
from holdfast.control.api_keys import KeyRequest, MadeKey
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.ids import ApiKeyId, RunId
from holdfast.domain.run import Run
from holdfast.domain.space import ApiKey

READ_TIMEOUT_SECONDS: Final = 60.0
"""Seconds without data after which the connection counts as lost: streams send a heartbeat every 15."""
CONNECT_TIMEOUT_SECONDS: Final = 10.0
API_KEY_VARIABLE: Final = "HOLDFAST_API_KEY"
"""The API key is read from this variable, because other users can see a command line."""


class ServerUnreachable(Exception):
    """The server cannot be reached or cannot respond now: a retry may succeed."""


class ServerClient:
    """A client of the server at a URL."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        key = os.environ.get(API_KEY_VARIABLE, "")
        if not (key.isascii() and key.isprintable() and " " not in key):
            remedy = "set it to the secret that `holdfast key create` printed"
            raise Invalid(f"{API_KEY_VARIABLE} does not contain a valid key: {remedy}", field=API_KEY_VARIABLE)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Proxies of the environment are ignored: a server on this machine is not behind one.
        timeout = httpx2.Timeout(READ_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
        self.http = httpx2.AsyncClient(base_url=self.url, headers=self.headers, timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        await self.http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.http.__aexit__(kind, error, trace)

    async def run(self, run_id: RunId) -> Run:
        """Return the current state of a run."""
        with map_transport_errors():
            response = await self.http.get(run_path(run_id))
        if response.status_code != httpx2.codes.OK:
            raise response_error(response.status_code, response.content)
        try:
            return msgspec.json.decode(response.content, type=Run)
        except msgspec.DecodeError:
            raise _not_holdfast_error() from None


class _ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    error: ServerErrorDetail


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


def run_path(run_id: RunId) -> str:
    """Return the URL path of a run."""
    return f"/api/runs/{quote(run_id, safe='')}"


def response_error(status: int, body: bytes) -> ServerRefused | ServerUnreachable:
    """Return the exception for an error response."""
    temporary = status >= httpx2.codes.INTERNAL_SERVER_ERROR
    try:
        detail = msgspec.json.decode(body, type=_ErrorEnvelope).error
    except msgspec.DecodeError:
        return ServerUnreachable(f"it responded with status {status}") if temporary else _not_holdfast_error()
    return ServerUnreachable(detail.message) if temporary else ServerRefused(detail)


@contextmanager
def map_transport_errors() -> Iterator[None]:
    """Raise `ServerUnreachable` for connection errors."""
    try:
        yield
    except httpx2.TransportError as exc:
        raise ServerUnreachable(str(exc) or type(exc).__name__) from exc


def _not_holdfast_error() -> ServerRefused:
    return ServerRefused(ServerErrorDetail(code="NOT_HOLDFAST", message="the URL is not of a Holdfast server"))


T = TypeVar("T")


class _KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ApiKey]


class ServerKeys:
    """The API keys of a server."""

    def __init__(self, remote: ServerClient) -> None:
        self._remote = remote

    async def create(self, request: KeyRequest) -> MadeKey:
        """Create a key."""
        return await self._send("POST", "/api/keys", MadeKey, json=msgspec.to_builtins(request))

    async def all(self) -> list[ApiKey]:
        """Return the keys."""
        return (await self._send("GET", "/api/keys", _KeyPage)).items

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""
        return await self._send("DELETE", f"/api/keys/{quote(key, safe='')}", ApiKey)

    async def _send(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        try:
            with map_transport_errors():
                response = await self._remote.http.request(method, path, **options)
            if response.status_code >= httpx2.codes.BAD_REQUEST:
                raise response_error(response.status_code, response.content)
        except ServerUnreachable as exc:
            raise Unavailable(f"no server at {self._remote.url}: {exc}") from exc
        return msgspec.json.decode(response.content, type=kind)
