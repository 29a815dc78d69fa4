"""That nothing changed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.conformance.tables import rows_of
from tests.scenario.agents.agent_workspace import AgentRuntime, AgentWorkspace


@asynccontextmanager
async def unchanged(floor: AgentRuntime, workshop: AgentWorkspace) -> AsyncIterator[None]:
    """See that the block changes nothing in the log."""
    where = Path(workshop.database)
    await floor.store.notifications.dispatch()  # or the engine does it meanwhile
    before = await rows_of(where)
    yield
    assert await rows_of(where) == before
