"""A receiver of webhooks on this machine, whose answers a test chooses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

OK: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
ERROR: Final = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
GONE: Final = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"


class Receiver:
    """A receiver of webhooks whose next answers a test chooses; then it accepts everything."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[bytes | Callable[[asyncio.StreamWriter], Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        raw = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        signature = next((value for name, value in raw.items() if name.lower() == "webhook-signature"), "")
        headers["webhook-signature"] = signature
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append((headers, body))
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, bytes):
            writer.write(answer)
        else:
            await answer(writer)
        writer.close()

    @property
    def events(self) -> list[tuple[str, str | None]]:
        """The types and runs that were received, in order."""
        bodies = [msgspec.json.decode(body) for _, body in self.requests]
        return [(body["type"], body["data"]["run_id"]) for body in bodies]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?a=b"
    async with server:
        yield receiver
