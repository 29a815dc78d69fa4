"""Servers written with the SDK, of today's protocol, as processes and over HTTP."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.domain.ids import FileId
from tests.scenario.agents.workshop import LIMIT, SPACE, Floor, Turn, Workshop, call, calling
from tests.scenario.mcp.declaring import SDK, agent, answers, program

TURNS: list[Turn] = [
    calling(call("mcp__sdk__add", a=1, b=2)),
    calling(call("mcp__sdk__fail")),
    calling(call("mcp__sdk__picture")),
    calling(call("mcp__sdk__find", what="key")),
    calling(call("mcp__sdk__learn", skill="juggle")),
    calling(call("mcp__sdk__whoami")),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Yield the address of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SDK, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)  # another process sends no event
        else:
            return


async def played(floor: Floor) -> list[str]:
    """Have an agent use everything, answer its question, and return what the tools answered."""
    run = await floor.start()
    (question,) = await floor.asks(run)
    assert question.message == "The MCP server `sdk` asks: Who has the key?"
    await floor.runs.respond(SPACE, run.id, {"action": "accept", "content": {"name": "Ada"}})
    return await answers(floor, run)


async def check(floor: Floor, said: list[str]) -> None:
    """Check what the tools answered."""
    assert msgspec.json.decode(said[0]) == {"total": 3}
    assert "it is broken" in said[1]
    assert said[2].startswith("look:\n[image/png, 12 bytes: file `")
    picture = FileId(said[2].partition("file `")[2].partition("`")[0])
    assert await floor.store.files.content(SPACE, picture) == b"\x89PNG no more"
    assert said[3] == "Ada has the key"
    assert said[4] == "learned"


async def test_a_server_on_pipes(workshop: Workshop) -> None:
    agent(workshop, *TURNS, mcp_servers={"sdk": program(SDK)}, permissions={"allow": ["mcp__sdk__*"]})
    async with workshop.open() as floor:
        said = await played(floor)
        await check(floor, said)
        assert said[5] == "nobody"


async def test_a_server_over_http_gets_the_headers_and_its_secrets_stay_secret(
    workshop: Workshop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDK_PHRASE", "open sesame 789")
    declared = {"url": url, "headers": {"Authorization": "Bearer ${SDK_PHRASE}"}}
    agent(workshop, *TURNS, mcp_servers={"sdk": declared}, permissions={"allow": ["mcp__sdk__*"]})
    async with workshop.open() as floor:
        said = await played(floor)
        await check(floor, said)
        assert said[5] == "Bearer [redacted]"
