"""MCP tools as the control plane lists and calls them on behalf of a run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.agent import Agent
from holdfast.domain.artifact import NewFile
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, McpServerFailed, NotFound
from holdfast.domain.mcp_server import McpServer, pattern_names_server, server_identity, server_of_tool
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
from holdfast.ports.tools import ToolTrust
from holdfast.ports.workspace import Agents
from holdfast.tools.arguments import check_arguments


class McpTools:
    """`RemoteTools` of MCP servers."""

    def __init__(
        self,
        servers: McpServerPool,
        *,
        agents: Agents,
        declared: Callable[[], Mapping[str, McpServer]],
        trust: ToolTrust,
        journal: Journal,
        files: Files,
    ) -> None:
        """List tools of servers; `declared` are those of the settings, for agents that name tools of theirs."""
        self._servers = servers
        self._agents = agents
        self._declared = declared
        self._trust = trust
        self._journal = journal
        self._files = files
        self._listed_specs: dict[McpServerClient, tuple[Sequence[McpTool], dict[str, str], list[ToolSpec]]] = {}

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the tools of the servers that the agent of a run may use."""
        usable = self._usable_servers(self._agents.get(lease.run.agent_type))
        if not usable:
            return []
        servers = [self._servers.get(lease.space_id, name, declared) for name, declared in usable.items()]
        async with (
            FirstErrorTaskGroup() as tasks
        ):  # whoever waits for one that does not answer has waited for all of those
            listing = [tasks.create_task(self._specs(lease, server)) for server in servers]
        return sorted((spec for task in listing for spec in task.result()), key=lambda spec: spec.name)

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Call a tool."""
        await self._journal.inbox(lease)  # refused if the lease is lost: nothing is done in its name any more
        server = self._server(lease, name)

        async def make(offer: McpTool) -> McpResult | Elicitation:
            return await server.call(lease.run_id, offer.remote_name, arguments, key=key)

        return await self._reply(lease, server, name, arguments, make)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Go on with a call that asked."""
        await self._journal.inbox(lease)
        server = self._server(lease, name)

        async def go_on(offer: McpTool) -> McpResult | Elicitation:
            return await server.answer(
                lease.run_id,
                offer.remote_name,
                arguments,
                key=key,
                asked=elicitation_from_interrupt(interrupt),
                response=response,
                again=offer.spec.kind is not ToolClass.EFFECTFUL,
            )

        return await self._reply(lease, server, name, arguments, go_on)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Trust a tool as a person has seen it."""
        await self._journal.inbox(lease)
        await self._trust.trust(lease.space_id, server_identity(self._server(lease, name).declared), name, digest)

    async def _reply(
        self,
        lease: Lease,
        server: McpServerClient,
        name: str,
        arguments: dict[str, Json],
        make: Callable[[McpTool], Awaitable[McpResult | Elicitation]],
    ) -> ToolReply:
        """Have a call made, and tell what came of it; whatever a server does wrong is a reply too."""
        effectful = True
        try:
            offer = await self._trusted_tool(lease, server, name)
            effectful = offer.spec.kind is ToolClass.EFFECTFUL
            check_arguments(offer.spec, arguments)
            return self._servers.redact(server, await self._to_reply(lease, server, await make(offer)))
        except McpServerFailed as error:
            unknown = effectful and error.details.get("started", True)
            so = " Nobody knows whether it took effect: verify before you call it again." if unknown else ""
            failed = ToolReply(content=f"{error.code}: {error.message}{so}", failed=True, unknown=unknown)
            return self._servers.redact(server, failed)
        except (Conflict, Invalid) as error:
            return ToolReply(content=f"{error.code}: {error.message}", failed=True)

    async def _to_reply(self, lease: Lease, server: McpServerClient, news: McpResult | Elicitation) -> ToolReply:
        if isinstance(news, Elicitation):
            return ToolReply(content=None, question=elicitation_interrupt(server.name, news))

        async def keep(content: bytes, media_type: str) -> str:
            new = NewFile(name=f"{server.name}-output", content=content, media_type=media_type)
            return (await self._files.create(lease.space_id, new)).id

        return await reply_from_result(news, keep)

    async def _trusted_tool(self, lease: Lease, server: McpServerClient, name: str) -> McpTool:
        """Return a tool that is trusted as it is now: whoever calls another has not seen what it has become."""
        offer = await self._find_tool(server, name)
        known = self._listed_specs.get(server)
        if known is not None and is_trusted(offer, known[1]):
            return offer
        if not is_trusted(offer, await self._trusted(lease, server, [offer])):
            raise Conflict(
                f"the tool `{name}` has changed since it was trusted: a person must look at it, call it again"
            )
        return offer

    async def _find_tool(self, server: McpServerClient, name: str) -> McpTool:
        found = next((offer for offer in await server.fresh_tools() if offer.spec.name == name), None)
        if found is None:
            raise NotFound(f"the MCP server `{server.name}` has no tool `{name}`", name=name)
        return found

    async def _specs(self, lease: Lease, server: McpServerClient) -> Sequence[ToolSpec]:
        """Return the tools of a server: the same ones as long as neither they nor what is trusted changes."""
        offers = await server.tools()
        known = self._listed_specs.get(server)
        if known is not None and known[0] is offers and all(is_trusted(offer, known[1]) for offer in offers):
            return known[2]
        trusted = await self._trusted(lease, server, offers)
        if known is None or known[0] is not offers or known[1] != trusted:
            known = self._listed_specs[server] = (offers, trusted, specs_for_model(offers, trusted))
        return known[2]

    async def _trusted(self, lease: Lease, server: McpServerClient, offers: Sequence[McpTool]) -> dict[str, str]:
        digests = {offer.spec.name: offer.digest for offer in offers}
        return await self._trust.trusted(lease.space_id, server_identity(server.declared), digests) if digests else {}

    def _server(self, lease: Lease, tool: str) -> McpServerClient:
        name = server_of_tool(tool)
        declared = self._usable_servers(self._agents.get(lease.run.agent_type)).get(name or "")
        if name is None or declared is None:
            raise NotFound(f"there is no tool `{tool}`", name=tool)
        return self._servers.get(lease.space_id, name, declared)

    def _usable_servers(self, agent: Agent) -> dict[str, McpServer]:
        """Return the servers that an agent may use: its own, and those of the settings that it names."""
        named = {
            name: declared
            for name, declared in self._declared().items()
            if any(pattern_names_server(pattern, name) for pattern in agent.tools)
        }
        return {**named, **agent.mcp_servers}
