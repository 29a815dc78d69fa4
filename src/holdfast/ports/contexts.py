"""Contexts: what models were told."""

from typing import Protocol

from holdfast.domain.context_snapshot import ReadContext
from holdfast.domain.ids import RunId, SpaceId


class Contexts(Protocol):
    """What each model call of a run was told."""

    async def steps(self, space: SpaceId, run: RunId) -> list[int]:
        """Return the steps of `run` whose context is kept, by number."""

    async def get(self, space: SpaceId, run: RunId, step: int) -> ReadContext:
        """Return what the model was told in a step, to the letter, or raise `NotFound`."""
