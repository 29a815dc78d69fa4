"""A workspace that nobody works in: what a use case changes is all that changes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenario.agents.agent_workspace import AgentRuntime, AgentWorkspace, say


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    """Return a workspace with the agent `bot`."""
    made = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    made.agent(say("done"), tools=["ask_user"], limits={"max_iterations": 20})
    return made


@pytest.fixture
async def floor(workshop: AgentWorkspace) -> AsyncIterator[AgentRuntime]:
    """Yield it, open and without workers."""
    async with workshop.open(workers=0) as opened:
        yield opened
