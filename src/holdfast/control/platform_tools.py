"""Tools that the control plane runs: the platform's own, combined with MCP tools and client methods."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec
from holdfast.domain.untrusted import read_taint, taint_source_name
from holdfast.ports.log import Journal, Values
from holdfast.ports.runs import Runs
from holdfast.ports.runtime import RemoteTools
from holdfast.tools.arguments import check_arguments
from holdfast.tools.builtin.tasks import TASK_STATUS_SPEC

PlatformToolCall: TypeAlias = Callable[[Lease, dict[str, Json]], Awaitable[ToolReply]]


class PlatformTools:
    """`RemoteTools` for the platform's own tools, in the same process."""

    def __init__(self, runs: Runs, journal: Journal, values: Values) -> None:
        self._runs = runs
        self._journal = journal
        self._values = values
        self._tools: dict[str, tuple[ToolSpec, PlatformToolCall]] = {
            TASK_STATUS_SPEC.name: (TASK_STATUS_SPEC, self._task_status),
        }
        self._specs = [spec for _, (spec, _) in sorted(self._tools.items())]

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the platform tools, which every run may use."""
        return self._specs

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Run a tool; `NotFound` and `Invalid` become a failed reply."""
        if name not in self._tools:
            raise NotFound(f"there is no tool `{name}`", name=name)
        await self._journal.inbox(lease)  # raises `LeaseLost`
        spec, run_tool = self._tools[name]
        try:
            check_arguments(spec, arguments)
            return await run_tool(lease, arguments)
        except (NotFound, Invalid) as error:
            return ToolReply(content=f"{error.code}: {error.message}", failed=True)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Raise `NotFound`: platform tools never interrupt a call."""
        raise NotFound(f"the tool `{name}` has no open interrupt", name=name)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Raise `NotFound`: platform tools never change."""
        raise NotFound(f"the tool `{name}` has not changed", name=name)

    async def _task_status(self, lease: Lease, arguments: dict[str, Json]) -> ToolReply:
        run = await self._runs.get(lease.space_id, RunId(arguments["task_id"]))
        content: dict[str, Json] = {"task_id": run.id, "status": str(run.status), "agent": run.agent_type}
        if run.status.terminal:
            content["output"] = run.output
        if run.error is not None:
            content["error"] = {"code": run.error.code, "message": run.error.message}
        taint = read_taint(await self._values.of_run(lease.space_id, run.id)).names()
        return ToolReply(content=content, untrusted=taint_source_name("run", run.id) if taint else None)


class CombinedTools:
    """`RemoteTools` of all sources: a name with a known prefix belongs to that source, any other to the platform."""

    def __init__(self, platform: RemoteTools, *, prefixed: Mapping[str, RemoteTools]) -> None:

        self._platform = platform
        self._prefixed = prefixed

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return all tools that the run may use."""
        specs = [*await self._platform.list(lease)]
        for source in self._prefixed.values():
            specs += await source.list(lease)
        return sorted(specs, key=lambda spec: spec.name)

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Run a tool of any source."""
        return await self._source(name).call(lease, name, arguments, key=key)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Resume an interrupted call."""
        source = self._source(name)
        return await source.resume(lease, name, arguments, key=key, interrupt=interrupt, response=response)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Allow a tool whose definition has changed to be called again."""
        await self._source(name).trust(lease, name, digest)

    def _source(self, name: str) -> RemoteTools:
        sources = (source for prefix, source in self._prefixed.items() if name.startswith(prefix))
        return next(sources, self._platform)
