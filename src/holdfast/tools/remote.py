"""Tools that run elsewhere, as tools like any other."""

from collections.abc import Iterable

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.ports.remote_tools import RemoteTools
from holdfast.tools.redaction import Redaction
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapped import wrapped


class RemoteTool:
    """`Tool` that the control plane runs."""

    def __init__(self, spec: ToolSpec, remote: RemoteTools) -> None:
        self.spec = spec
        self._remote = remote

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Have it done."""
        reply = await self._remote.call(call.lease, self.spec.name, arguments, key=call.key)
        return Outcome(content=reply.content, failed=reply.failed)


def remote_tools(specs: Iterable[ToolSpec], remote: RemoteTools, *, redaction: Redaction | None = None) -> list[Tool]:
    """Return the tools of these specs, which are run elsewhere."""
    return [wrapped(RemoteTool(spec, remote), redaction=redaction) for spec in specs]
