"""The library of a worker in the same process."""

from collections.abc import Sequence

from holdfast.control.granting import check_granted
from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.ids import FileId
from holdfast.ports.artifacts import Files
from holdfast.ports.queue import Interrupts
from holdfast.ports.runtime import StoredFile
from holdfast.ports.workspace import Agents


class LocalLibrary:
    """`Library` over the workspace's own agents and the storage of the store."""

    def __init__(self, agents: Agents, files: Files, interrupts: Interrupts) -> None:
        self._agents = agents
        self._files = files
        self._interrupts = interrupts

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run."""
        return self._agents.get(lease.run.agent_type)

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn."""
        return self._agents.all()

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space."""
        known = await self._files.get(lease.space_id, file)
        return StoredFile(media_type=known.media_type, content=await self._files.content(lease.space_id, file))

    async def grant(self, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
        """Write rules that allow an agent more."""
        await check_granted(self._interrupts, lease, agent=agent, rules=rules)
        self._agents.grant(agent, rules)
