"""Runtime ports for workers in the same process: the agent library and subagent runs.

A worker acts under its lease. A grant is written only if a person's response to an interrupt of that run allows exactly
those rules.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, IdTaken, IllegalMove, Invalid, NotFound
from holdfast.domain.ids import FileId, RunId, ThreadId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptStatus
from holdfast.domain.limits import check_children
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.untrusted import read_taint
from holdfast.ports.artifacts import Files
from holdfast.ports.log import Journal, Values
from holdfast.ports.queue import Interrupts, Subscriptions
from holdfast.ports.runs import RunFilter, Runs
from holdfast.ports.runtime import StoredFile
from holdfast.ports.workspace import Agents


class LocalLibrary:
    """`Library` over the agents of the workspace and the files of the store."""

    def __init__(self, agents: Agents, files: Files, interrupts: Interrupts) -> None:
        self._agents = agents
        self._files = files
        self._interrupts = interrupts

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run."""
        return self._agents.get(lease.run.agent_type)

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return all agents of the workspace."""
        return self._agents.all()

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space."""
        stored = await self._files.get(lease.space_id, file)
        return StoredFile(media_type=stored.media_type, content=await self._files.content(lease.space_id, file))

    async def grant(self, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
        """Add allow rules to an agent; `Conflict` unless a person answered an approval of the run with "always"."""
        interrupts = await self._interrupts.of_run(lease.space_id, lease.run_id)
        if not any(_response_grants(each, agent=agent, rules=list(rules)) for each in interrupts):
            raise Conflict(f"no approval grants these rules to agent `{agent}`: ask a person first", rules=list(rules))
        self._agents.grant(agent, rules)


def _response_grants(interrupt: Interrupt, *, agent: str, rules: list[str]) -> bool:
    if interrupt.kind is not InterruptKind.APPROVAL or interrupt.status is not InterruptStatus.ANSWERED:
        return False
    match interrupt.response, interrupt.metadata:
        case {"decision": "always", **response}, {"offers": [narrowest, *_] as offers, "asking": [*agents]}:
            return rules in offers and rules == response.get("rules", narrowest) and agent in agents
        case _:
            return False


PARENT_FAILED_REASON: Final = "the run that waited for it has failed"


class LocalSubagentRuns:
    """`SubagentRuns` over the store."""

    def __init__(self, runs: Runs, subscriptions: Subscriptions, journal: Journal, values: Values) -> None:
        self._runs = runs
        self._subscriptions = subscriptions
        self._journal = journal
        self._values = values

    async def count_active_children(self, lease: Lease) -> int:
        """Return the number of children that have not ended."""
        return await self._runs.count_active_children(lease.space_id, lease.run_id)

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Create a run, or return the one that has the id of `new`."""
        await self._check_lease(lease)
        assert new.id is not None

        with suppress(NotFound):
            return await self._runs.get(lease.space_id, new.id)
        if new.parent_run_id is not None:
            check_children(lease.run.limits, await self.count_active_children(lease) + pending_spawns)
        try:
            return await self._create(lease, new, awaited=awaited)
        except IdTaken as taken:  # created concurrently by an earlier holder of the lease
            if taken.details.get("id") != new.id:
                raise
            return await self._runs.get(lease.space_id, new.id)

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Notify the run when `target` ends; a run is always notified about its own children."""
        await self._check_lease(lease)
        found = await self._runs.get(lease.space_id, target)
        if waits is None and found.parent_run_id == lease.run_id:
            return found
        return await self._subscriptions.add(lease.space_id, lease.run_id, target=target, waits=waits)

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return the names of the untrusted sources that a run has read."""
        return read_taint(await self._values.of_run(lease.space_id, run)).names()

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """Cancel the children that have not ended."""
        await self._check_lease(lease)
        for run in runs:
            with suppress(IllegalMove):
                await self._runs.end(lease.space_id, run, to=RunStatus.CANCELLED, reason=PARENT_FAILED_REASON)

    async def _create(self, lease: Lease, new: NewRun, *, awaited: bool) -> Run:
        """Create a run on a new thread, or on the existing thread that has the id of the new one."""
        if isinstance(new.thread, NewThread):
            try:
                return (await self._runs.create(lease.space_id, new, awaited=awaited)).run
            except IdTaken as taken:
                if new.thread.id is None or taken.details.get("id") != new.thread.id:
                    raise
                new = replace(new, thread=new.thread.id)
        assert isinstance(new.thread, str)
        await self._check_thread(lease, new.thread, agent=new.agent_type)
        return (await self._runs.create(lease.space_id, new, awaited=awaited)).run

    async def _check_thread(self, lease: Lease, thread: ThreadId, *, agent: str | None) -> None:
        page = await self._runs.page(lease.space_id, where=RunFilter(thread_id=thread), limit=1)
        root = lease.run.root_thread_id
        if thread in (lease.thread_id, root) or not page.items or page.items[0].root_thread_id != root:
            raise NotFound(
                f"there is no thread `{thread}` that this run may write to: name the thread of a run in its tree",
                id=thread,
            )
        thread_agent = page.items[0].agent_type
        if thread_agent != agent:
            raise Invalid(f"thread `{thread}` belongs to agent `{thread_agent}`: name that agent", field="agent")

    async def _check_lease(self, lease: Lease) -> None:
        await self._journal.inbox(lease)  # raises `LeaseLost`
