"""`SubagentRuns` in memory, with a fixed number of active children."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.domain.commit import Lease
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.limits import check_children
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from tests.support.calls import a_run


class FakeSubagents:
    """Records the runs that are spawned and subscribed to."""

    def __init__(self, *, active: int = 0, tasks: Sequence[Run] = (), taint: Sequence[str] = ()) -> None:
        self.spawned: list[NewRun] = []
        self.awaited: list[bool] = []
        self.subscribed: list[tuple[RunId, str | None]] = []
        self._at_work = active
        self._taint = taint
        self._tasks = {task.id: task for task in tasks}

    async def count_active_children(self, lease: Lease) -> int:
        """Return the number of active children."""
        return self._at_work

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Record a run."""
        if new.parent_run_id is not None:
            check_children(lease.run.limits, self._at_work + pending_spawns)
        self.spawned.append(new)
        self.awaited.append(awaited)
        thread = new.thread.id if isinstance(new.thread, NewThread) else new.thread
        assert new.id is not None and thread is not None
        return replace(a_run(id=new.id), thread_id=thread, status=RunStatus.QUEUED)

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Record a subscription."""
        if target not in self._tasks:
            raise NotFound(f"there is no run `{target}`", id=target)
        self.subscribed.append((target, waits))
        return self._tasks[target]

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return the untrusted sources."""
        return self._taint

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """Do nothing: no run is active."""
