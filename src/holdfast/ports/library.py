"""The library: what agents are and know, for whoever runs them."""

from typing import Protocol

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease


class Library(Protocol):
    """What a run may read of the workspace, in the name of its lease."""

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run as it is defined now, or raise `NotFound`."""

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn, by name."""
