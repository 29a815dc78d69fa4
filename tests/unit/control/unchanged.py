"""A check that a block changes nothing in the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.conformance.tables import rows_without_projections
from tests.scenario.agents.agent_workspace import AgentRuntime, AgentWorkspace


@asynccontextmanager
async def unchanged(floor: AgentRuntime, workshop: AgentWorkspace) -> AsyncIterator[None]:
    """Check that the block changes no row."""
    database = Path(workshop.database)
    await floor.store.notifications.dispatch()  # otherwise the engine dispatches during the block
    before = await rows_without_projections(database)
    yield
    assert await rows_without_projections(database) == before
