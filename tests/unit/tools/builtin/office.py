"""`Peers` in memory: an office where so many are at work, which keeps what was begun in it."""

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


class Office:
    """Keeps what runs begin and want to be told of."""

    def __init__(self, *, at_work: int = 0, tasks: Sequence[Run] = (), taint: Sequence[str] = ()) -> None:
        self.begun: list[NewRun] = []
        self.awaited: list[bool] = []
        self.subscribed: list[tuple[RunId, str | None]] = []
        self._at_work = at_work
        self._taint = taint
        self._tasks = {task.id: task for task in tasks}

    async def count_active_children(self, lease: Lease) -> int:
        """Return how many are at work."""
        return self._at_work

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Keep a run."""
        if new.parent_run_id is not None:
            check_children(lease.run.limits, self._at_work + pending_spawns)
        self.begun.append(new)
        self.awaited.append(awaited)
        thread = new.thread.id if isinstance(new.thread, NewThread) else new.thread
        assert new.id is not None and thread is not None
        return replace(a_run(id=new.id), thread_id=thread, status=RunStatus.QUEUED)

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Keep who wants to be told of what."""
        if target not in self._tasks:
            raise NotFound(f"there is no run `{target}`", id=target)
        self.subscribed.append((target, waits))
        return self._tasks[target]

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return what everybody here has read of others."""
        return self._taint

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """End nothing: nobody works here."""
