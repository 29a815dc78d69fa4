"""Tools that run elsewhere, as tools like any other."""

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.ports.remote_tools import RemoteTools
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapped import wrapped


class RemoteTool:
    """`Tool` that the control plane runs, in the name of a lease."""

    def __init__(self, spec: ToolSpec, remote: RemoteTools, lease: Lease) -> None:
        self.spec = spec
        self._remote = remote
        self._lease = lease

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Have it done."""
        reply = await self._remote.call(self._lease, self.spec.name, arguments, key=call.key)
        return Outcome(content=reply.content, failed=reply.failed)


async def remote_tools(remote: RemoteTools, lease: Lease) -> list[Tool]:
    """Return the tools that the run of `lease` may use elsewhere."""
    return [wrapped(RemoteTool(spec, remote, lease)) for spec in await remote.list(lease)]
