"""The step ledger."""

from typing import Protocol

from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.step import Step


class Steps(Protocol):
    """What a run called, and how it settled."""

    async def of_run(self, space: SpaceId, run: RunId) -> list[Step]:
        """Return the steps of `run` by number."""
