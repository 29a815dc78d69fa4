"""The readiness of a process."""

import pytest

from holdfast.control.monitoring import HealthControl
from holdfast.domain.errors import Unavailable
from tests.scenario.agents.agent_workspace import AgentRuntime


async def test_a_process_is_ready_until_it_stops(floor: AgentRuntime) -> None:
    health = HealthControl(floor.store.health, version="1")
    assert (await health.ready()).status == "ready"
    health.close()
    with pytest.raises(Unavailable, match="shutting down"):
        await health.ready()
