"""Tools that the control plane runs: the platform's own, combined with MCP tools and client methods."""

from collections.abc import Awaitable, Mapping
from typing import Protocol

from holdfast.control.reminders import ReminderTools
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec
from holdfast.domain.untrusted import read_taint, taint_source_name
from holdfast.ports.log import Journal, Values
from holdfast.ports.runs import Runs
from holdfast.ports.runtime import RemoteTools, ToolListing
from holdfast.tools.arguments import check_arguments
from holdfast.tools.builtin.reminders import (
    COMPLETE_REMINDER_SPEC,
    DISMISS_REMINDER_SPEC,
    LIST_REMINDERS_SPEC,
    SET_REMINDER_SPEC,
)
from holdfast.tools.builtin.tasks import TASK_STATUS_SPEC


class PlatformToolCall(Protocol):
    """Runs one call of a tool; `key` is the same for every attempt."""

    def __call__(self, lease: Lease, arguments: dict[str, Json], *, key: str) -> Awaitable[ToolReply]:
        """Run a call."""


class PlatformTools:
    """`RemoteTools` for the platform's own tools, in the same process."""

    def __init__(self, runs: Runs, journal: Journal, values: Values, *, reminders: ReminderTools | None = None) -> None:
        """Offer the reminder tools only with `reminders`."""
        self._runs = runs
        self._journal = journal
        self._values = values
        self._tools: dict[str, tuple[ToolSpec, PlatformToolCall]] = {
            TASK_STATUS_SPEC.name: (TASK_STATUS_SPEC, self._task_status),
        }
        if reminders is not None:
            self._tools |= {
                SET_REMINDER_SPEC.name: (SET_REMINDER_SPEC, reminders.set),
                LIST_REMINDERS_SPEC.name: (LIST_REMINDERS_SPEC, reminders.list),
                COMPLETE_REMINDER_SPEC.name: (COMPLETE_REMINDER_SPEC, reminders.complete),
                DISMISS_REMINDER_SPEC.name: (DISMISS_REMINDER_SPEC, reminders.dismiss),
            }
        self._listing = ToolListing(tools=[spec for _, (spec, _) in sorted(self._tools.items())])

    async def list(self, lease: Lease) -> ToolListing:
        """Return the platform tools, which every run may use."""
        return self._listing

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Run a tool; `NotFound`, `Invalid` and `Conflict` become a failed reply."""
        if name not in self._tools:
            raise NotFound(f"there is no tool `{name}`", name=name)
        await self._journal.inbox(lease)  # raises `LeaseLost`
        spec, run_tool = self._tools[name]
        try:
            await check_arguments(spec, arguments)
            return await run_tool(lease, arguments, key=key)
        except (NotFound, Invalid, Conflict) as error:
            return ToolReply(content=f"{error.code}: {error.message}", failed=True)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Raise `NotFound`: platform tools never interrupt a call."""
        raise NotFound(f"the tool `{name}` has no open interrupt", name=name)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Raise `NotFound`: platform tools never change."""
        raise NotFound(f"the tool `{name}` has not changed", name=name)

    async def _task_status(self, lease: Lease, arguments: dict[str, Json], *, key: str) -> ToolReply:
        run = await self._runs.get(lease.space_id, run_id_of(arguments["task_id"]))
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

    async def list(self, lease: Lease) -> ToolListing:
        """Return all tools that the run may use."""
        listings = [await source.list(lease) for source in (self._platform, *self._prefixed.values())]
        return ToolListing(
            tools=sorted((spec for listing in listings for spec in listing.tools), key=lambda spec: spec.name),
            unavailable=[failure for listing in listings for failure in listing.unavailable],
        )

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
