"""The ASGI middleware that sends larger answers to reads with gzip.

Compression tells an observer of the network how much of an answer repeats, so that somebody who can place text beside a
secret could guess the secret (BREACH). Hence:

- Only answers to `GET` are compressed. The answers that hold a secret, such as a new key or ticket, are to `POST`.
- Paths of keys, sessions, tickets, settings and webhooks are left out altogether.
- Each answer gets up to `MAX_PADDING_BYTES` of random length, so that one observation tells nothing.

A page of another site cannot ask in the first place: a cookie is taken only from requests of the same origin. Streams
and answers with an `ETag`, which names the bytes of a version, stay as they are.
"""

import asyncio
import secrets
import zlib
from typing import Final

from holdfast.api.asgi import AsgiApp, AsgiMessage, AsgiScope, Receive, Send

MIN_COMPRESSED_BYTES: Final = 1024
MAX_INLINE_BYTES: Final = 32 * 1024
"""A longer body is compressed in a thread."""
MAX_PADDING_BYTES: Final = 64
_LEVEL: Final = 3
_SECRET_SEGMENTS: Final = frozenset({"keys", "session", "me", "tickets", "settings", "webhooks", "hooks", "rpc"})
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"
"""Of a member with a name, without a time."""


class CompressionMiddleware:
    """Compresses JSON that the app sends in one piece."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Call the app, and compress its answer if the request and the answer allow it."""
        if scope["type"] != "http" or scope["method"] != "GET" or _is_secret(scope["path"]):
            await self._app(scope, receive, send)
            return
        accepted = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-encoding"]
        await self._app(scope, receive, _Answer(send, accepts=_accepts_gzip(",".join(accepted))).send)


class _Answer:
    """One answer, whose head waits for its body."""

    def __init__(self, send: Send, *, accepts: bool) -> None:
        self._send = send
        self._accepts = accepts
        self._head: AsgiMessage | None = None

    async def send(self, message: AsgiMessage) -> None:
        """Pass a message on; hold back the head of an answer that may be compressed."""
        if message["type"] == "http.response.start" and _is_compressible(message):
            self._head = message
            return
        head, self._head = self._head, None
        if head is not None:
            body = message.get("body", b"")
            if not message.get("more_body", False) and len(body) >= MIN_COMPRESSED_BYTES:
                head["headers"] = [*head["headers"], (b"vary", b"Accept-Encoding")]
                if self._accepts:
                    message = {**message, "body": await _compressed(body)}
                    head["headers"] = _compressed_headers(head, len(message["body"]))
            await self._send(head)
        await self._send(message)


def _is_secret(path: str) -> bool:
    return not _SECRET_SEGMENTS.isdisjoint(path.split("/"))


def _accepts_gzip(accepted: str) -> bool:
    for coding in accepted.split(","):
        name, _, weight = coding.replace(" ", "").partition(";")
        if name in ("gzip", "*"):
            return weight not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _is_compressible(head: AsgiMessage) -> bool:
    headers = {name.lower(): value for name, value in head["headers"]}
    is_json = headers.get(b"content-type", b"").startswith(b"application/json")
    return is_json and head["status"] == 200 and not headers.keys() & {b"etag", b"content-encoding"}


def _compressed_headers(head: AsgiMessage, length: int) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in head["headers"] if name.lower() != b"content-length"]
    return [*kept, (b"content-encoding", b"gzip"), (b"content-length", str(length).encode())]


async def _compressed(body: bytes) -> bytes:
    return gzip(body) if len(body) <= MAX_INLINE_BYTES else await asyncio.to_thread(gzip, body)


def gzip(body: bytes) -> bytes:
    """Compress a body into a gzip member whose name is of a random length."""
    name = b"-" * secrets.randbelow(MAX_PADDING_BYTES) + b"\x00"
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    tail = zlib.crc32(body).to_bytes(4, "little") + (len(body) & 0xFFFFFFFF).to_bytes(4, "little")
    return b"".join([_GZIP_HEADER, name, packer.compress(body), packer.flush(), tail])
