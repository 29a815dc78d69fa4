"""The library: what agents are and know, for whoever runs them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.ids import FileId


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the space, with its bytes."""

    media_type: str
    content: bytes


class Library(Protocol):
    """What a run may read of the workspace, in the name of its lease."""

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run as it is defined now, or raise `NotFound`."""

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn, by name."""

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space, or raise `NotFound`."""

    async def grant(self, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
        """Write rules that allow an agent more, because a person said so; those that are there already stay once.

        What nobody answered a question of the run with raises `Conflict`. A file that cannot be written raises
        `Unavailable`, one that is in error now `Conflict`.
        """
