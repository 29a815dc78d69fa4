"""MCP tools as the control plane lists and calls them on behalf of a run."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.agent import Agent
from holdfast.domain.artifact import NewFile
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, McpServerFailed, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import McpServer, pattern_names_server, server_identity, server_of_tool
from holdfast.domain.run import Run
from holdfast.domain.tool import ToolClass, ToolInterrupt, ToolReply, ToolSpec
from holdfast.mcp.listed_tools import McpTool, is_trusted, specs_for_model
from holdfast.mcp.replies import (
    Elicitation,
    McpResult,
    elicitation_from_interrupt,
    elicitation_interrupt,
    reply_from_result,
)
from holdfast.mcp.server import McpServerClient
from holdfast.mcp.servers import McpServerPool
from holdfast.ports.artifacts import Files
from holdfast.ports.log import Journal
from holdfast.ports.runtime import ToolListing
from holdfast.ports.tools import ToolTrust
from holdfast.tools.arguments import check_arguments


class McpTools:
    """`RemoteTools` of MCP servers."""

    def __init__(
        self,
        servers: McpServerPool,
        *,
        agent_of_run: Callable[[Run], Awaitable[Agent]],
        declared: Callable[[], Mapping[str, McpServer]],
        trust: ToolTrust,
        journal: Journal,
        files: Files,
    ) -> None:
        """`declared` returns the servers in the settings, which an agent may use if it lists their tools."""
        self._servers = servers
        self._agent_of_run = agent_of_run
        self._declared = declared
        self._trust = trust
        self._journal = journal
        self._files = files
        self._listed_specs: dict[McpServerClient, tuple[Sequence[McpTool], dict[str, str], list[ToolSpec]]] = {}

    async def list(self, lease: Lease) -> ToolListing:
        """Return the tools of the servers that the agent of a run may use."""
        usable = self._usable_servers(await self._agent_of_run(lease.run))
        if not usable:
            return ToolListing(tools=())
        servers = [
            self._servers.get(lease.space_id, name, declared, space_key=lease.space_key)
            for name, declared in usable.items()
        ]
        async with FirstErrorTaskGroup() as tasks:  # concurrently, so that slow servers share one timeout
            listings = [tasks.create_task(self._specs(lease, server)) for server in servers]
        failures = [server.failure() for server in servers]
        return ToolListing(
            tools=sorted((spec for task in listings for spec in task.result()), key=lambda spec: spec.name),
            unavailable=[failure for failure in failures if failure is not None],
        )

    def known(self, space: SpaceId) -> Iterator[tuple[str, ToolSpec]]:
        """Yield the tools that the servers of a space have listed so far, with the names of the servers."""
        for server in self._servers.of_space(space):
            yield from ((server.name, tool.spec) for tool in server.listed)

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Call a tool."""
        await self._journal.inbox(lease)  # raises if the lease is lost: that worker may call nothing any more
        server = await self._server(lease, name)

        async def call(tool: McpTool) -> McpResult | Elicitation:
            return await server.call(lease.run_id, tool.remote_name, arguments, key=key)

        return await self._reply(lease, server, name, arguments, call)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Continue a call with the response to its interrupt."""
        await self._journal.inbox(lease)
        server = await self._server(lease, name)

        async def respond(tool: McpTool) -> McpResult | Elicitation:
            return await server.respond(
                lease.run_id,
                tool.remote_name,
                arguments,
                key=key,
                elicitation=elicitation_from_interrupt(interrupt),
                response=response,
                retry=tool.spec.kind is not ToolClass.EFFECTFUL,
            )

        return await self._reply(lease, server, name, arguments, respond)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Trust a tool with the digest that a person has approved."""
        await self._journal.inbox(lease)
        server = await self._server(lease, name)
        await self._trust.trust(lease.space_id, server_identity(server.declared), name, digest)

    async def _reply(
        self,
        lease: Lease,
        server: McpServerClient,
        name: str,
        arguments: dict[str, Json],
        call: Callable[[McpTool], Awaitable[McpResult | Elicitation]],
    ) -> ToolReply:
        """Make a call and return its reply; a failure of the server is a reply too."""
        effectful = True
        try:
            tool = await self._trusted_tool(lease, server, name)
            effectful = tool.spec.kind is ToolClass.EFFECTFUL
            await check_arguments(tool.spec, arguments)
            return await self._servers.redact(server, await self._to_reply(lease, server, await call(tool)))
        except McpServerFailed as error:
            unknown = effectful and error.details.get("started", True)
            note = " Its outcome is unknown: verify before you call it again." if unknown else ""
            failed = ToolReply(content=f"{error.code}: {error.message}{note}", failed=True, unknown=unknown)
            return await self._servers.redact(server, failed)
        except (Conflict, Invalid) as error:
            return ToolReply(content=f"{error.code}: {error.message}", failed=True)

    async def _to_reply(self, lease: Lease, server: McpServerClient, outcome: McpResult | Elicitation) -> ToolReply:
        if isinstance(outcome, Elicitation):
            return ToolReply(content=None, interrupt=elicitation_interrupt(server.name, outcome))

        async def save(content: bytes, media_type: str) -> str:
            new = NewFile(name=f"{server.name}-output", content=content, media_type=media_type)
            return (await self._files.create(lease.space_id, new)).id

        return await reply_from_result(outcome, save)

    async def _trusted_tool(self, lease: Lease, server: McpServerClient, name: str) -> McpTool:
        """Return the current tool; raise `Conflict` if it has changed since it was trusted."""
        tool = next((tool for tool in await server.fresh_tools() if tool.spec.name == name), None)
        if tool is None:
            raise NotFound(f"the MCP server `{server.name}` has no tool `{name}`", name=name)
        cached = self._listed_specs.get(server)
        if cached is not None and is_trusted(tool, cached[1]):
            return tool
        if not is_trusted(tool, await self._trusted(lease, server, [tool])):
            raise Conflict(f"the tool `{name}` has changed since it was trusted: call it again for a person to approve")
        return tool

    async def _specs(self, lease: Lease, server: McpServerClient) -> Sequence[ToolSpec]:
        """Return the tool specs of a server, from a cache while neither the tools nor their trust change."""
        tools = await server.tools()
        cached = self._listed_specs.get(server)
        if cached is not None and cached[0] is tools and all(is_trusted(tool, cached[1]) for tool in tools):
            return cached[2]
        trusted = await self._trusted(lease, server, tools)
        if cached is None or cached[0] is not tools or cached[1] != trusted:
            cached = self._listed_specs[server] = (tools, trusted, specs_for_model(tools, trusted))
        return cached[2]

    async def _trusted(self, lease: Lease, server: McpServerClient, tools: Sequence[McpTool]) -> dict[str, str]:
        digests = {tool.spec.name: tool.digest for tool in tools}
        return await self._trust.trusted(lease.space_id, server_identity(server.declared), digests) if digests else {}

    async def _server(self, lease: Lease, tool: str) -> McpServerClient:
        name = server_of_tool(tool)
        declared = self._usable_servers(await self._agent_of_run(lease.run)).get(name or "")
        if name is None or declared is None:
            raise NotFound(f"there is no tool `{tool}`", name=tool)
        return self._servers.get(lease.space_id, name, declared, space_key=lease.space_key)

    def _usable_servers(self, agent: Agent) -> dict[str, McpServer]:
        """Return the servers that an agent may use: its own, and those in the settings that its tool patterns name."""
        named = {
            name: declared
            for name, declared in self._declared().items()
            if any(pattern_names_server(pattern, name) for pattern in agent.tools)
        }
        return {**named, **agent.mcp_servers}
