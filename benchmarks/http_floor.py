"""The floor of the server: the same requests, rows and bytes, without Holdfast.

`python -m benchmarks.http_floor DATABASE` accepts a run on Litestar and uvicorn, makes the rows of a run of an agent as
durable as ours are (created, claimed, then every 25 ms, finished), and sends what ours sends in the same pieces. What
many follow is a bare ASGI app: each subscriber is a task that waits for the next bytes, and sends them.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
import uvloop
from litestar import Litestar, Request, Response, post
from litestar.response import Stream

from benchmarks.bare_run import CHUNKS, EVENTS_OF_A_RUN, WORDS, BareRun
from benchmarks.floors import floor

BROADCAST_INTERVAL_SECONDS: Final = 0.1
WINDOW: Final = 25
_STREAM: Final = "text/event-stream"
_IDS: Final = {"threadId": f"thr_{'0' * 32}", "runId": f"run_{'0' * 32}"}
_MESSAGE: Final = {"messageId": f"msg_{'0' * 32}"}


class RunBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request; `delay_ms` is the delay before each of 20 chunks."""

    input: str
    base_run_id: str | None = None
    delay_ms: int = 0


def _event(seq: int, type_: str, **fields: Any) -> bytes:
    return f"id: {seq}\ndata: ".encode() + msgspec.json.encode({"type": type_, "timestamp": 1, **fields}) + b"\n\n"


def _content(seq: int, text: str) -> bytes:
    return _event(seq, "TEXT_MESSAGE_CONTENT", **_MESSAGE, delta=text)


_STEP: Final = {"number": 1, "kind": "model", "state": "done", "key": f"run_{'0' * 32}.1", "attempt": 1}
_BEGIN: Final = b"retry: 1000\n\n" + _event(1, "RUN_STARTED", **_IDS, protocolVersion="1.0")
_SPEAKS: Final = _event(2, "CUSTOM", name="holdfast.step", value=_STEP) + _event(3, "TEXT_MESSAGE_START", **_MESSAGE)
_END: Final = (
    _event(5, "TEXT_MESSAGE_END", **_MESSAGE)
    + _event(6, "CUSTOM", name="holdfast.step", value=_STEP)
    + _event(7, "RUN_FINISHED", **_IDS, usage=[{"model": "scripted:script.json", "inputTokens": 0, "outputTokens": 0}])
    + b"retry: 86400000\n\n"
)
_WHOLE: Final = _SPEAKS + _content(4, WORDS) + _END
_PIECE: Final = _content(4, WORDS[: len(WORDS) // 8])
_RUN: Final = msgspec.json.encode({**_IDS, "status": "completed", "output": WORDS, "others": "x" * 800})
_BEATEN: Final = _content(4, "w")


def create_app(bare: BareRun) -> Litestar:
    """Return the app that accepts runs."""

    @post("/api/threads/{thread_id:str}/runs")
    async def create_run(thread_id: str, data: RunBody, request: Request[Any, Any, Any]) -> Response[bytes] | Stream:
        if request.headers["accept"] == _STREAM:
            return Stream(_pieces(bare, data.delay_ms), media_type=_STREAM, status_code=200)
        async for _ in _pieces(bare, data.delay_ms):
            pass
        return Response(_RUN, media_type="application/json")

    return Litestar([create_run], openapi_config=None, logging_config=None)


async def _pieces(bare: BareRun, delay_ms: int) -> AsyncIterator[bytes]:
    """Create a run, and yield its stream once each part is durable."""
    key = await bare.create()
    yield _BEGIN
    await bare.claim(key)
    if not delay_ms:
        await bare.finish(key, events=EVENTS_OF_A_RUN)
        yield _WHOLE
        return
    sent, due = 1, 0
    for number in range(CHUNKS):
        await asyncio.sleep(delay_ms / 1000)
        if number * delay_ms >= due:  # the first one immediately, the others in batches
            due = number * delay_ms + WINDOW
            await bare.say(key, after=sent, events=1)
            sent += 1
            yield _PIECE if sent > 2 else _SPEAKS + _PIECE
    await bare.finish(key, after=sent, events=EVENTS_OF_A_RUN - 2)
    yield _END


class Broadcast:
    """Sends the same bytes to all subscribers periodically."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await asyncio.sleep(BROADCAST_INTERVAL_SECONDS)
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def follow(self, receive: Any, send: Any, *, silent: bool) -> None:
        """Serve one subscriber until it disconnects."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"retry: 1000\n\n", "more_body": True})
        sending = asyncio.ensure_future(asyncio.Event().wait() if silent else self._send(send))
        while (await receive())["type"] != "http.disconnect":
            pass
        sending.cancel()

    async def _send(self, send: Any) -> None:
        loop = asyncio.get_running_loop()
        while True:
            future = loop.create_future()
            self._waiting.append(future)
            await future
            await send({"type": "http.response.body", "body": _BEATEN, "more_body": True})


async def serve(database: str | Path) -> None:
    """Print the URL, and serve until SIGTERM."""
    async with floor(database) as ground:
        runs, broadcast = create_app(BareRun(ground, database)), Broadcast()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            match scope["path"]:
                case "/health":
                    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
                    await send(head)
                    await send({"type": "http.response.body", "body": b"ok"})
                case "/beat" | "/silence":
                    await broadcast.follow(receive, send, silent=scope["path"] == "/silence")
                case _:
                    await runs(scope, receive, send)

        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(2048)
            print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
            config = uvicorn.Config(
                app, http="httptools", lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=0
            )
            sender = asyncio.ensure_future(broadcast.run())
            await uvicorn.Server(config).serve(sockets=[listener])
            sender.cancel()


if __name__ == "__main__":
    where = sys.argv[1]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(where if "://" in where else Path(where)))
