"""Runtime ports for workers in the same process: the agent library and subagent runs.

A worker acts in the name of its lease. A grant that an agent asks for is written only if a person's response to an
interrupt of that run allows exactly those rules.
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
    """`Library` over the workspace's own agents and the storage of the store."""

    def __init__(self, agents: Agents, files: Files, interrupts: Interrupts) -> None:
        self._agents = agents
        self._files = files
        self._interrupts = interrupts

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run."""
        return self._agents.get(lease.run.agent_type)

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn."""
        return self._agents.all()

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space."""
        known = await self._files.get(lease.space_id, file)
        return StoredFile(media_type=known.media_type, content=await self._files.content(lease.space_id, file))

    async def grant(self, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
        """Write rules that allow an agent more."""
        await check_grant(self._interrupts, lease, agent=agent, rules=rules)
        self._agents.grant(agent, rules)


async def check_grant(interrupts: Interrupts, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
    """Raise `Conflict` unless somebody answered a question of the run with "always", and was shown just that."""
    asked = await interrupts.of_run(lease.space_id, lease.run_id)
    if not any(_response_grants(one, agent=agent, rules=list(rules)) for one in asked):
        raise Conflict(f"nobody has always allowed this to agent `{agent}`: ask a person first", rules=list(rules))


def _response_grants(asked: Interrupt, *, agent: str, rules: list[str]) -> bool:
    if asked.kind is not InterruptKind.APPROVAL or asked.status is not InterruptStatus.ANSWERED:
        return False
    match asked.response, asked.metadata:
        case {"decision": "always", **said}, {"offers": [narrowest, *_] as offers, "asking": [*asking]}:
            return rules in offers and rules == said.get("rules", narrowest) and agent in asking
        case _:
            return False


PARENT_FAILED_REASON: Final = "the run that waited for it has failed"


class LocalSubagentRuns:
    """`Peers` over the store."""

    def __init__(self, runs: Runs, subscriptions: Subscriptions, journal: Journal, values: Values) -> None:
        self._runs = runs
        self._subscriptions = subscriptions
        self._journal = journal
        self._values = values

    async def count_active_children(self, lease: Lease) -> int:
        """Return how many children have not ended."""
        return await self._runs.count_active_children(lease.space_id, lease.run_id)

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Make a run."""
        await self._check(lease)
        assert new.id is not None
        with suppress(NotFound):
            return await self._runs.get(lease.space_id, new.id)
        if new.parent_run_id is not None:
            check_children(lease.run.limits, await self.count_active_children(lease) + pending_spawns)
        try:
            return await self._begin(lease, new, awaited=awaited)
        except IdTaken as taken:  # by somebody who has lost the lease, and was faster
            if taken.details.get("id") != new.id:
                raise
            return await self._runs.get(lease.space_id, new.id)

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Have the run told of an end; of those of its children it is told in any case."""
        await self._check(lease)
        found = await self._runs.get(lease.space_id, target)
        if waits is None and found.parent_run_id == lease.run_id:
            return found
        return await self._subscriptions.add(lease.space_id, lease.run_id, target=target, waits=waits)

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return what a run has read that others wrote."""
        return read_taint(await self._values.of_run(lease.space_id, run)).names()

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """End children."""
        await self._check(lease)
        for run in runs:
            with suppress(IllegalMove):
                await self._runs.end(lease.space_id, run, to=RunStatus.CANCELLED, reason=PARENT_FAILED_REASON)

    async def _begin(self, lease: Lease, new: NewRun, *, awaited: bool) -> Run:
        """Make a run on a thread of its own, or go on with the one that has its name."""
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
        tree = lease.run.root_thread_id
        if thread in (lease.thread_id, tree) or not page.items or page.items[0].root_thread_id != tree:
            raise NotFound(
                f"there is no thread `{thread}` that this run may write to: name one that a child of its tree has",
                id=thread,
            )
        if page.items[0].agent_type != agent:
            raise Invalid(f"thread `{thread}` is one of agent `{page.items[0].agent_type}`: name that", field="agent")

    async def _check(self, lease: Lease) -> None:
        await self._journal.inbox(lease)
