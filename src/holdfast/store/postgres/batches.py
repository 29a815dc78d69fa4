"""Group commit: while one batch is on its way to the disk, the next one gathers."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.domain.commit import Committed
from holdfast.domain.errors import Unavailable
from holdfast.store.commits import Outcome, apply
from holdfast.store.postgres.sessions import Sessions
from holdfast.store.prepared import Prepared
from holdfast.store.transaction import Again

MOST_AT_ONCE: Final = 512
TRIES: Final = 10


class _Job(msgspec.Struct, eq=False):
    """A commit, and who waits for it."""

    commit: Prepared
    future: asyncio.Future[Committed]


class Batches:
    """A queue of commits, written in the order in which they came."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def submit(self, commit: Prepared) -> asyncio.Future[Committed]:
        """Hand over a commit."""
        if self._closed:
            raise Unavailable("the store is closed")
        job = _Job(commit, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        return job.future

    def close(self) -> None:
        """Take no more; what is waiting is still written."""
        self._closed = True
        self._arrived.set()

    async def work(self) -> None:
        """Write batches until closed."""
        while self._waiting or not self._closed:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._write(self._take())

    def _take(self) -> list[_Job]:
        """Take commits of different runs: the second of a run waits for the next batch."""
        taken: list[_Job] = []
        runs: set[int] = set()
        while self._waiting and len(taken) < MOST_AT_ONCE and self._waiting[0].commit.lease.run_key not in runs:
            taken.append(self._waiting.popleft())
            runs.add(taken[-1].commit.lease.run_key)
        return taken

    async def _write(self, jobs: Sequence[_Job]) -> None:
        """Write a batch; if it fails for a reason that may lie in one of its commits, write them one by one."""
        try:
            outcomes = await self._apply([job.commit for job in jobs])
        except Unavailable as exc:
            _resolve(jobs, [exc] * len(jobs))
        except Exception as exc:  # noqa: BLE001 - whatever it is, it must reach the caller and not end the batches
            if len(jobs) == 1:
                _resolve(jobs, [exc])
            else:
                for job in jobs:
                    await self._write([job])
        else:
            _resolve(jobs, outcomes)

    async def _apply(self, commits: Sequence[Prepared]) -> list[Outcome]:
        """Apply commits, again if others were in their way."""
        for _ in range(TRIES):
            try:
                async with self._sessions.writing() as transaction:
                    return await apply(transaction, commits)
            except Again:
                continue
        raise Unavailable("others were in the way each time: try again")


def _resolve(jobs: Sequence[_Job], outcomes: Sequence[Committed | Exception]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)
