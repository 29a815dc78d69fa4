"""A server, as a client sees it: what it answers, what it refuses, and when it is gone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import httpx2
import msgspec

from holdfast.cli.refusal import Problem, ServerRefused
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run

SILENCE: Final = 60.0
"""Seconds after which a server that says nothing is taken for gone: a stream shows a sign of life every 15."""
CONNECT: Final = 10.0
KEY_VARIABLE: Final = "HOLDFAST_API_KEY"
"""Where a key is read from: what stands on a command line can be seen by others."""


class Lost(Exception):
    """The server is gone, or cannot answer now: the same may succeed later."""


class Remote:
    """The server at an address."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self.headers = _authorization(os.environ.get(KEY_VARIABLE))
        # A server on this machine is not reached through a proxy, whatever the environment says.
        timeout = httpx2.Timeout(SILENCE, connect=CONNECT)
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
        with connection_checked():
            answer = await self.http.get(path_of(run_id))
        if answer.status_code != httpx2.codes.OK:
            raise refusal(answer.status_code, answer.content)
        try:
            return msgspec.json.decode(answer.content, type=Run)
        except msgspec.DecodeError:
            raise _stranger() from None


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    error: Problem


def _authorization(key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Invalid(f"what is in {KEY_VARIABLE} can be no key", field=KEY_VARIABLE)
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


def path_of(run_id: RunId) -> str:
    """Return where a run is on every server."""
    return f"/api/runs/{quote(run_id, safe='')}"


def refusal(status: int, body: bytes) -> ServerRefused | Lost:
    """Return what an answer other than the wanted one means."""
    try:
        problem = msgspec.json.decode(body, type=_Envelope).error
    except msgspec.DecodeError:
        return Lost(f"it answers {status}") if status >= httpx2.codes.INTERNAL_SERVER_ERROR else _stranger()
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        return Lost(problem.message)
    return ServerRefused(problem)


@contextmanager
def connection_checked() -> Iterator[None]:
    """Raise `Lost` where the connection fails."""
    try:
        yield
    except httpx2.TransportError as exc:
        raise Lost(str(exc) or type(exc).__name__) from exc


def _stranger() -> ServerRefused:
    return ServerRefused(Problem(code="NOT_HOLDFAST", message="what answers there is no server of Holdfast"))
