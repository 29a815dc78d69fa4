"""What people wrote: settings, agents, tools and permissions that do not load, each with its file and its key."""

from collections.abc import Iterator

from holdfast.bootstrap.doctor.finding import Finding, failure, well
from holdfast.bootstrap.hands import known_names, taken_names
from holdfast.domain.agent import Agent
from holdfast.domain.errors import HoldfastError
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.settings import FolderSettings, Settings
from holdfast.workspace.tools import read_tool, tool_folders


class Definitions:
    """What a workspace defines, as far as it can be read."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        known = known_names(workspace, ())
        self._folder_settings = FolderSettings(workspace, known=known)
        self._grants = FolderGrants(workspace, known=known)
        self._broken_settings = self._folder_settings.broken()
        self._agents = FolderAgents(workspace, settings=lambda: self.settings, known=known)

    @property
    def settings(self) -> Settings:
        """The settings; where they are in error, those of an empty file."""
        return Settings() if self._broken_settings is not None else self._folder_settings.get()

    @property
    def agents(self) -> list[Agent]:
        """The agents that load."""
        return self._agents.all()

    @property
    def has_commands(self) -> bool:
        """Whether some agent may run commands, or a tool is one."""
        return bool(tool_folders(self._workspace)) or any("bash" in agent.tools for agent in self.agents)

    def look(self) -> Iterator[Finding]:
        """Yield what is found."""
        yield _read("settings", self._broken_settings)
        yield from self._look_at_agents()
        yield from self._look_at_tools()
        yield _read("permissions", self._grants.broken())

    def _look_at_agents(self) -> Iterator[Finding]:
        for broken in self._agents.broken():
            yield failure("agents", broken.message, remedy=f"correct `{broken.file}`")
        names = ", ".join(agent.name for agent in self.agents)
        if names:
            yield well("agents", f"these load: {names}")
        else:
            yield failure("agents", "there is no agent that loads", remedy="make one: see `agents/` of `holdfast init`")

    def _look_at_tools(self) -> Iterator[Finding]:
        names = tool_folders(self._workspace)
        for name in names:
            try:
                read_tool(self._workspace, name, taken=taken_names(()))
            except HoldfastError as wrong:
                yield failure("tools", wrong.message, remedy=f"correct `tools/{name}/tool.json`")
                names = [each for each in names if each != name]
        if names:
            yield well("tools", f"these custom tools load: {', '.join(names)}")


def _read(about: str, wrong: HoldfastError | None) -> Finding:
    if wrong is None:
        return well(about, f"`{about}.json` can be read, or is not there")
    return failure(about, wrong.message, remedy=f"correct `{about}.json`")
