"""Tools as the API lists them: of the workspace, of clients and of MCP servers, with the agents that have them."""

from collections.abc import Callable, Iterable

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import server_tool_prefix
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.ports.spaces import Spaces
from holdfast.ports.workspace import Agents


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, where it comes from, and who has it."""

    name: str
    description: str
    source: str
    """`builtin`, `workspace` (folders and functions), `process` (added in Python), `client`, or `mcp:` and a server."""
    kind: ToolClass = msgspec.field(name="class")
    read_only: bool
    parameters: dict[str, Json]
    agents: list[str]
    """The agents whose `tools` name it."""


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    """Tools by name."""

    items: list[ToolView]


class ToolControl:
    """Queries for tools."""

    def __init__(
        self, sources: Callable[[SpaceId], Iterable[tuple[str, ToolSpec]]], *, agents: Agents, spaces: Spaces
    ) -> None:
        """List the tools that `sources` yields for a space, each with the name of its source."""
        self._sources = sources
        self._spaces = spaces
        self._agents = agents

    async def all(self, space: SpaceId) -> ToolList:
        """Return the tools of a space; those of a client or an MCP server only while it is connected."""
        await self._spaces.get(space)
        agents = await self._agents.all_of_space(space)
        found = {spec.name: (source, spec) for source, spec in self._sources(space)}
        return ToolList(
            items=[
                ToolView(
                    name=name,
                    description=spec.description,
                    source=source,
                    kind=spec.kind,
                    read_only=spec.read_only,
                    parameters=spec.parameters,
                    agents=[agent.name for agent in agents if _has(agent, name)],
                )
                for name, (source, spec) in sorted(found.items())
            ]
        )


def _has(agent: Agent, tool: str) -> bool:
    prefixes = (pattern[:-1] for pattern in agent.tools if pattern.endswith("*"))
    servers = map(server_tool_prefix, agent.mcp_servers)
    return tool in agent.tools or tool.startswith((*prefixes, *servers))
