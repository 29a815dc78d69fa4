"""Embedders over HTTP: vectors in the order of the texts, and a clear error for every wrong answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.models.embedders import ApiEmbedder, open_embedder


@asynccontextmanager
async def served(answer: Callable[[dict[str, Any]], tuple[int, bytes]]) -> AsyncIterator[str]:
    """Serve one answer per connection, and yield the base URL."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/embeddings ")
        size = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        status, body = answer(json.loads(await reader.readexactly(int(size))))
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/"


def vectors(*rows: list[float], order: list[int] | None = None) -> bytes:
    places = order or list(range(len(rows)))
    return json.dumps({"data": [{"index": at, "embedding": rows[at]} for at in places]}).encode()


async def test_vectors_are_normalised_and_in_the_order_of_the_texts() -> None:
    async with served(lambda asked: (200, vectors([3.0, 4.0], [0.0, 0.0], order=[1, 0]))) as url:
        embedder = ApiEmbedder(url=url, model="m", dims=2)
        rows = await embedder.embed(["one", "two"])
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]
    assert (embedder.id, embedder.parts) == ("api:m:2", (2,))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, b"", "status 500"),
        (200, b"no json", "something else"),
        (200, b'{"data": 1}', "something else"),
        (200, vectors([1.0]), "1 dimensions instead of 2"),
        (200, vectors(), "0 vectors for 1 texts"),
        (200, vectors([1.0, 2.0], [1.0, 2.0]), "2 vectors for 1 texts"),
    ],
)
async def test_a_wrong_answer_is_unavailable(status: int, body: bytes, message: str) -> None:
    async with served(lambda asked: (status, body)) as url:
        with pytest.raises(Unavailable, match=message):
            await ApiEmbedder(url=url, model="m", dims=2).embed(["one"])


async def test_a_server_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await ApiEmbedder(url="http://127.0.0.1:9", model="m", dims=2).embed(["one"])


def test_settings_that_name_no_usable_embedder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="model.onnx"):
        open_embedder("onnx:nowhere", url=None, dims=None, key_variable=None, folder=tmp_path)
    with pytest.raises(Invalid, match="embedder_url"):
        open_embedder("api:m", url=None, dims=2, key_variable=None, folder=tmp_path)
    with pytest.raises(Invalid, match="HOLDFAST_NO_SUCH_KEY"):
        open_embedder("api:m", url="http://x", dims=2, key_variable="HOLDFAST_NO_SUCH_KEY", folder=tmp_path)
