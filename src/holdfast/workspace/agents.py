"""The agents of a workspace's folder."""

import os
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.errors import NotFound, Unavailable
from holdfast.ports.workspace import BrokenAgent
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.agent_files import FILES, read_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.reload import Monotonic, Pace, Reloaded
from holdfast.workspace.settings import Settings, with_defaults
from holdfast.workspace.text_files import file_name, printable

_NEEDED: Final = FILES[:2]


class FolderAgents:
    """`Agents` from files, with the defaults of the workspace. They are looked at when somebody asks, in its thread."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        settings: Callable[[], Settings] = Settings,
        known: Collection[str] = KNOWN_TOOLS,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._known = known
        self._grants = FolderGrants(workspace, known=known, monotonic=monotonic)
        self._pace = Pace(monotonic)
        self._agents: dict[str, Reloaded[Agent]] = {}
        self._made: dict[str, tuple[Settings, Agent]] = {}
        """The agents as they are given out, and by which settings. Since the last look, nothing else has changed."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; one that is broken raises `Invalid` unless it was good before."""
        self._look()
        if name not in self._agents:
            self._look(now=True)
        if name not in self._agents:
            raise NotFound(f"no agent `{name}`: it needs `agents/{name}/agent.json` and `agents/{name}/AGENT.md`")
        return self._defined(self._agents[name].get(), self._settings())

    def all(self) -> list[Agent]:
        """Return the agents that can be used, by name."""
        self._look()
        settings = self._settings()
        return [self._defined(kept.value, settings) for kept in self._agents.values() if kept.value is not None]

    def broken(self) -> list[BrokenAgent]:
        """Return those whose files are in error now, by name."""
        self._look()
        return [
            BrokenAgent(name=printable(name), file=kept.error.details["file"], message=kept.error.message)
            for name, kept in self._agents.items()
            if kept.error is not None
        ]

    def grant(self, name: str, rules: Sequence[str]) -> None:
        """Allow an agent what these rules say, from now on."""
        self._made.clear()
        self._grants.add(name, rules)

    def refresh(self) -> None:
        """Look at the files now, however short ago that was done."""
        self._look(now=True)

    def _defined(self, agent: Agent, settings: Settings) -> Agent:
        """Return an agent with what the workspace says about it."""
        made = self._made.get(agent.name)
        if made is None or made[0] is not settings:
            granted, found = self._grants.of(agent.name), with_defaults(agent, settings)
            made = self._made[agent.name] = (settings, replace(found, granted=granted) if granted else found)
        return made[1]

    def _look(self, *, now: bool = False) -> None:
        at = self._pace.due(now=now)
        if at is None:
            return
        self._made.clear()
        names = self._names()
        self._agents = {name: self._agents.get(name) or self._watch(name) for name in names}
        for kept in self._agents.values():
            kept.look(at=at)
        self._grants.look()

    def _names(self) -> list[str]:
        """Return the folders that have something of an agent in them."""
        folder = self._workspace.agents
        try:
            found = sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except OSError as exc:
            name = file_name(folder, root=self._workspace.path)
            raise Unavailable(f"cannot list `{name}`: {exc.strerror or exc}") from exc
        return [name for name in found if not name.startswith(".") and _is_agent(folder / name)]

    def _watch(self, name: str) -> Reloaded[Agent]:
        files = [self._workspace.agents / name / file for file in FILES]
        return Reloaded(partial(read_agent, self._workspace, name, known=self._known), files=files)


def _is_agent(folder: Path) -> bool:
    return any(os.path.lexists(folder / file) for file in _NEEDED)
