"""HTTP client for a Holdfast server: its errors, runs and API keys."""

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
"""Seconds after which a server that says nothing is taken for gone: a stream shows a sign of life every 15."""
CONNECT_TIMEOUT_SECONDS: Final = 10.0
API_KEY_VARIABLE: Final = "HOLDFAST_API_KEY"
"""Where a key is read from: what stands on a command line can be seen by others."""


class ServerUnreachable(Exception):
    """The server is gone, or cannot answer now: the same may succeed later."""


class ServerClient:
    """The server at an address."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self.headers = _authorization_header(os.environ.get(API_KEY_VARIABLE))
        # A server on this machine is not reached through a proxy, whatever the environment says.
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
        """Return a run as it is now."""
        with map_transport_errors():
            answer = await self.http.get(run_path(run_id))
        if answer.status_code != httpx2.codes.OK:
            raise response_error(answer.status_code, answer.content)
        try:
            return msgspec.json.decode(answer.content, type=Run)
        except msgspec.DecodeError:
            raise _not_holdfast_error() from None


class _ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    error: ServerErrorDetail


def _authorization_header(key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Invalid(f"what is in {API_KEY_VARIABLE} can be no key", field=API_KEY_VARIABLE)
    return {"Authorization": f"Bearer {key}"}


def check_url(url: str) -> str:
    """Return the address of a server as every client understands it, without a slash at its end."""
    hint = "write it like `http://127.0.0.1:5050`"
    try:
        parts = httpx2.URL(url)
        port = parts.port is None or 0 < parts.port < 2**16
        usable = parts.scheme in ("http", "https") and parts.host and port
    except httpx2.InvalidURL:
        usable = False
    if not usable:
        raise Invalid(f"`{url}` is no address of a server: {hint}", field="url")
    if "?" in url or "#" in url:  # paths are put behind it
        raise Invalid(f"`{url}` is no address of a server, it has a `?` or a `#`: {hint}", field="url")
    return str(httpx2.URL(url)).rstrip("/")


def run_path(run_id: RunId) -> str:
    """Return where a run is on every server."""
    return f"/api/runs/{quote(run_id, safe='')}"


def response_error(status: int, body: bytes) -> ServerRefused | ServerUnreachable:
    """Return what an answer other than the wanted one means."""
    try:
        problem = msgspec.json.decode(body, type=_ErrorEnvelope).error
    except msgspec.DecodeError:
        return (
            ServerUnreachable(f"it answers {status}")
            if status >= httpx2.codes.INTERNAL_SERVER_ERROR
            else _not_holdfast_error()
        )
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        return ServerUnreachable(problem.message)
    return ServerRefused(problem)


@contextmanager
def map_transport_errors() -> Iterator[None]:
    """Raise `ServerUnreachable` where the connection fails."""
    try:
        yield
    except httpx2.TransportError as exc:
        raise ServerUnreachable(str(exc) or type(exc).__name__) from exc


def _not_holdfast_error() -> ServerRefused:
    return ServerRefused(ServerErrorDetail(code="NOT_HOLDFAST", message="what answers there is no server of Holdfast"))


T = TypeVar("T")


class _KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ApiKey]


class ServerKeys:
    """What a server lets its caller do with keys."""

    def __init__(self, remote: ServerClient) -> None:
        self._remote = remote

    async def create(self, asked: KeyRequest) -> MadeKey:
        """Make a key."""
        return await self._ask("POST", "/api/keys", MadeKey, json=msgspec.to_builtins(asked))

    async def all(self) -> list[ApiKey]:
        """Return the keys."""
        return (await self._ask("GET", "/api/keys", _KeyPage)).items

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""
        return await self._ask("DELETE", f"/api/keys/{quote(key, safe='')}", ApiKey)

    async def _ask(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        try:
            with map_transport_errors():
                answer = await self._remote.http.request(method, path, **options)
            if answer.status_code >= httpx2.codes.BAD_REQUEST:
                raise response_error(answer.status_code, answer.content)
        except ServerUnreachable as exc:
            raise Unavailable(f"there is no server at {self._remote.url}: {exc}") from exc
        return msgspec.json.decode(answer.content, type=kind)
