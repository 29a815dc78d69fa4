"""The agents of a workspace."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent


class BrokenAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose files cannot be used, and why; one that could be used before is used as it was."""

    name: str
    file: str
    message: str


class Agents(Protocol):
    """Agents as they are defined now: a changed file is seen by calls from 200 ms later on."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; one that is broken raises `Invalid` unless it was good before."""

    def all(self) -> list[Agent]:
        """Return the agents that can be used, by name."""

    def broken(self) -> list[BrokenAgent]:
        """Return those whose files are in error now, by name."""

    def grant(self, name: str, rules: Sequence[str]) -> None:
        """Allow an agent what these rules say, from now on; those that it has already stay once.

        What cannot be written raises `Unavailable`, and a file that is in error now `Conflict`.
        """
