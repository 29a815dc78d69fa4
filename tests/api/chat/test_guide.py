"""The program in the guide to remote methods works."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.api.site import TIMEOUT_SECONDS, Site, serve
from tests.architecture.markdown import python_blocks
from tests.architecture.project import ROOT
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

GUIDE: Final = ROOT / "docs" / "guides" / "remote-methods.md"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Yield a server with the agent of the guide."""
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(calling(call("remote__ring", times=2)), say("I rang: {$last_tool}"), name="porter")
    workshop.write("agents/porter/agent.json", GUIDE.read_text().split("```json\n")[1].split("```")[0])
    async with serve(workshop) as site:
        yield site


async def test_the_program_offers_a_method_and_an_agent_calls_it(site: Site) -> None:
    (program,) = python_blocks(GUIDE)
    code = program.code.replace("127.0.0.1:5050", site.host)
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert client.stdout is not None
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await client.stdout.readline() == b"ready\n"
            reply = await site.post("/agents/porter/chat", {"message": "ring twice"}, expect=200)
            assert reply["output"] == 'I rang: {"rang":2}'
            assert await client.stdout.readline() == b"ding ding \n"
    finally:
        client.kill()
        await client.wait()
