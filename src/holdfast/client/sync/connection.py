# Generated from the async client: run `python -m tests.client.sync_source` to write it.
"""The connection of a client to a server: requests that are repeated safely, lists by page, and event streams."""

import os
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx2
import msgspec

from holdfast.client.api import RunEvent
from holdfast.client.wire import (
    CONNECT_TIMEOUT_SECONDS,
    DEFAULT_RETRY_SECONDS,
    DEFAULT_URL,
    MAX_PAGE,
    READ_TIMEOUT_SECONDS,
    SPACE_VARIABLE,
    URL_VARIABLE,
    Outage,
    SseParser,
    check_key,
    check_url,
    map_transport_errors,
    not_holdfast_error,
    path_of,
    query_of,
    response_error,
)
from holdfast.control.errors import TooMany
from holdfast.domain.content import Json
from holdfast.domain.errors import Unavailable
from holdfast.domain.message import Message
from holdfast.domain.page import Page

T = TypeVar("T")

_REPEATABLE: Final = frozenset({"GET", "HEAD", "PATCH", "PUT"})


class SyncConnection:
    """A connection to the server at a URL, for one space."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        space: str | None = None,
        retry_seconds: float = DEFAULT_RETRY_SECONDS,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.url = check_url(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)
        self.space = space or os.environ.get(SPACE_VARIABLE) or None
        """The space; by default that of the key, or `default`."""
        self.retry_seconds = retry_seconds
        secret = check_key(key)
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        # Proxies of the environment are ignored: a server on this machine is not behind one.
        timeout = httpx2.Timeout(READ_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
        self._http = httpx2.Client(
            base_url=self.url, headers=self.headers, timeout=timeout, transport=transport, trust_env=False
        )

    def __enter__(self) -> Self:
        self._http.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.__exit__(kind, error, trace)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def path(self, path: str) -> str:
        """Return the whole path of a route in the space of the client."""
        return f"/api{path}" if self.space is None else f"/api/spaces/{path_of('', self.space)}{path}"

    def send(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Json = msgspec.UNSET,
        key: str | None = None,
        in_space: bool = True,
    ) -> T:
        """Send a request to a route of the API, of the space unless `in_space` is false; return what it decodes to."""
        whole = self.path(path) if in_space else f"/api{path}"
        return self.decode(self.request(method, whole, query=query, body=body, key=key), kind)

    def decode(self, content: bytes, kind: type[T]) -> T:
        """Return the value of a response."""
        try:
            return msgspec.json.decode(content or b"null", type=kind)
        except msgspec.DecodeError:
            raise not_holdfast_error() from None

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Json = msgspec.UNSET,
        content: bytes | None = None,
        media_type: str = "application/json",
        key: str | None = None,
    ) -> bytes:
        """Send a request to any path of the server, and return the body of the response.

        It is repeated after a failure if it reads or has an idempotency `key`, and also if it was not sent yet.
        """
        content = content if body is msgspec.UNSET else msgspec.json.encode(body, enc_hook=str)
        headers = {} if content is None else {"Content-Type": media_type}
        headers |= {} if key is None else {"Idempotency-Key": key}
        outage = Outage(self.url, retry_seconds=self.retry_seconds)
        while True:
            try:
                with map_transport_errors():
                    response = self._http.request(method, path, params=query, content=content, headers=headers)
                if response.status_code < httpx2.codes.BAD_REQUEST:
                    return response.content
                raise response_error(response.status_code, response.content)
            except (Unavailable, TooMany) as error:
                not_done = isinstance(error, TooMany) or error.details.get("sent") is False
                if method not in _REPEATABLE and key is None and not not_done:
                    raise outage.final(error) from error
                time.sleep(outage.delay(error))

    def pages(
        self,
        path: str,
        kind: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        limit: int | None = None,
        in_space: bool = True,
    ) -> Iterator[T]:
        """Yield the items of a list, page by page."""
        cursor, left = None, limit
        while left is None or left > 0:
            size = MAX_PAGE if left is None else min(left, MAX_PAGE)
            parameters = {**(query or {}), **query_of(limit=size, cursor=cursor)}
            page: Page[T] = self.send("GET", path, Page[kind], query=parameters, in_space=in_space)  # type: ignore[valid-type]
            for item in page.items:
                yield item
            left = None if left is None else left - len(page.items)
            cursor = page.next_cursor
            if cursor is None:
                return

    def last_messages(self, path: str, *, run: str | None, limit: int | None) -> list[Message]:
        """Return the last messages of a conversation, oldest first: its pages lead backwards."""
        found: list[Message] = []
        cursor = None
        while limit is None or len(found) < limit:
            size = MAX_PAGE if limit is None else min(limit - len(found), MAX_PAGE)
            page = self.send("GET", path, Page[Message], query=query_of(run_id=run, limit=size, cursor=cursor))
            found = page.items + found
            cursor = page.next_cursor
            if cursor is None:
                break
        return found if limit is None else found[-limit:] if limit else []

    @contextmanager
    def open_stream(self, path: str, after: int | None = None) -> Iterator[Iterator[RunEvent]]:
        """Open an event stream, and yield its events until the server ends it."""
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        with map_transport_errors():
            with self._http.stream("GET", path, headers=headers) as response:
                if response.status_code != httpx2.codes.OK:
                    raise response_error(response.status_code, response.read())
                with closing(_parse(response.iter_bytes())) as events:
                    yield events


def _parse(chunks: Iterator[bytes]) -> Generator[RunEvent, None, None]:
    parser = SseParser()
    for chunk in chunks:
        for event in parser.feed(chunk):
            yield event


def new_key() -> str:
    """Return a new idempotency key."""
    return uuid.uuid4().hex
