"""A workspace without workers: only the use cases under test change it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenario.agents.agent_workspace import AgentRuntime, AgentWorkspace, say


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    """Return a workspace with the agent `bot`."""
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workspace.agent(say("done"), tools=["ask_user"], limits={"max_iterations": 20})
    return workspace


@pytest.fixture
async def floor(workshop: AgentWorkspace) -> AsyncIterator[AgentRuntime]:
    """Open the workspace without workers."""
    async with workshop.open(workers=0) as opened:
        yield opened
