"""Tools of several sources as one: the platform, and those whose tools have a prefix of their own."""

from collections.abc import Mapping

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec
from holdfast.ports.runtime import RemoteTools


class JoinedTools:
    """`RemoteTools` of all sources of the control plane."""

    def __init__(self, platform: RemoteTools, *, prefixed: Mapping[str, RemoteTools]) -> None:
        """Join sources: a name that begins with a prefix is for the source of it, any other for the platform."""
        self._platform = platform
        self._prefixed = prefixed

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return all tools that the run may use."""
        found = [*await self._platform.list(lease)]
        for source in self._prefixed.values():
            found += await source.list(lease)
        return sorted(found, key=lambda spec: spec.name)

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Run a tool, where it comes from."""
        return await self._source(name).call(lease, name, arguments, key=key)

    async def answer(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, question: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Go on with a call that asked, where the tool comes from."""
        source = self._source(name)
        return await source.answer(lease, name, arguments, key=key, question=question, response=response)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Let a tool be called that has changed."""
        await self._source(name).trust(lease, name, digest)

    def _source(self, name: str) -> RemoteTools:
        sources = (source for prefix, source in self._prefixed.items() if name.startswith(prefix))
        return next(sources, self._platform)
