"""The library of a worker in the same process."""

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.ports.agents import Agents


class LocalLibrary:
    """`Library` over the workspace's own agents."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run."""
        return self._agents.get(lease.run.agent_type)

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn."""
        return self._agents.all()
