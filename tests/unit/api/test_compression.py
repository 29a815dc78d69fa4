"""Larger JSON answers to reads are sent with gzip; secrets, streams and versioned answers are not."""

import gzip
import json
from typing import Any

import pytest

from holdfast.api.compression import MAX_INLINE_BYTES, MAX_PADDING_BYTES, MIN_COMPRESSED_BYTES, CompressionMiddleware

JSON = (b"content-type", b"application/json")
LONG = json.dumps({"text": "bread " * 400}).encode()


async def answer(
    *pieces: bytes,
    path: str = "/api/threads",
    method: str = "GET",
    accept: str | None = "gzip, deflate",
    headers: tuple[tuple[bytes, bytes], ...] = (JSON,),
    status: int = 200,
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body that a client gets of an app that sends `pieces`."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        length = [(b"content-length", str(len(pieces[0])).encode())] if len(pieces) == 1 else []
        await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
        for index, piece in enumerate(pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": index + 1 < len(pieces)})

    async def send(message: Any) -> None:
        sent.append(message)

    given = [] if accept is None else [(b"accept-encoding", accept.encode())]
    nothing: Any = None
    await CompressionMiddleware(app)({"type": "http", "method": method, "path": path, "headers": given}, nothing, send)
    head, *bodies = sent
    return {name.decode(): value.decode() for name, value in head["headers"]}, b"".join(each["body"] for each in bodies)


async def test_a_long_answer_is_compressed() -> None:
    for body in (LONG, LONG * (MAX_INLINE_BYTES // len(LONG) + 1)):
        headers, sent = await answer(body)
        assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
        assert headers["content-length"] == str(len(sent))
        assert len(sent) < len(body) / 4
        assert gzip.decompress(sent) == body


@pytest.mark.parametrize("accept", ["gzip", "*", "br;q=1.0, gzip;q=0.5", "deflate,gzip"])
async def test_every_way_to_accept_gzip_is_read(accept: str) -> None:
    assert "content-encoding" in (await answer(LONG, accept=accept))[0]


@pytest.mark.parametrize("accept", [None, "", "br", "gzip;q=0", "gzip; q=0.0", "x-gzip-like"])
async def test_a_client_that_does_not_accept_gzip_gets_the_answer_as_it_is(accept: str | None) -> None:
    headers, sent = await answer(LONG, accept=accept)
    assert ("content-encoding" in headers, headers["vary"], sent) == (False, "Accept-Encoding", LONG)


async def test_a_short_answer_is_not_compressed() -> None:
    headers, sent = await answer(b"x" * (MIN_COMPRESSED_BYTES - 1))
    assert ("content-encoding" in headers, "vary" in headers, len(sent)) == (False, False, MIN_COMPRESSED_BYTES - 1)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "POST"},
        {"method": "HEAD"},
        {"path": "/api/keys"},
        {"path": "/api/spaces/kitchen/webhooks/whk_1"},
        {"path": "/api/settings"},
        {"path": "/api/session"},
        {"path": "/api/tickets"},
        {"status": 404},
        {"headers": ((b"content-type", b"text/event-stream"),)},
        {"headers": ((b"content-type", b"image/png"),)},
        {"headers": (JSON, (b"ETag", b'"3"'))},
        {"headers": (JSON, (b"content-encoding", b"br"))},
    ],
)
async def test_secrets_streams_and_versions_stay_as_they_are(options: dict[str, Any]) -> None:
    headers, sent = await answer(LONG, **options)
    assert headers.get("content-encoding") != "gzip"
    assert (sent, headers["content-length"]) == (LONG, str(len(LONG)))


async def test_an_answer_in_pieces_is_passed_on_piece_by_piece() -> None:
    headers, sent = await answer(LONG, LONG)
    assert ("content-encoding" in headers, sent) == (False, LONG * 2)


async def test_equal_answers_have_different_lengths() -> None:
    lengths = {len((await answer(LONG))[1]) for _ in range(200)}
    assert len(lengths) > 10
    assert max(lengths) - min(lengths) < MAX_PADDING_BYTES
