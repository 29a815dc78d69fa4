"""The values of a run: state, plan, todo, compaction."""

from typing import Protocol

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId


class Values(Protocol):
    """What a run holds beside its messages."""

    async def of_run(self, space: SpaceId, run: RunId) -> dict[str, Json]:
        """Return the values of `run`: its own, else those its base had where it was cut."""
