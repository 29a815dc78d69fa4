"""Group commit for PostgreSQL: while one batch is written, items for the next one are collected."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.concurrency import start_background
from holdfast.domain.errors import Unavailable
from holdfast.store.postgres.transaction import Sessions
from holdfast.store.transaction import Batch

MAX_BATCH_ITEMS: Final = 512


class _Job(msgspec.Struct, eq=False):
    """An item and the future of its caller."""

    item: Any
    future: asyncio.Future[Any]


class BatchQueues:
    """One queue per batch kind, each with a task of its own."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._queues: dict[int, tuple[_BatchQueue, asyncio.Task[None]]] = {}
        self._closed = False

    def submit(self, batch: Batch[Any, Any], item: Any) -> asyncio.Future[Any]:
        """Queue an item."""
        if self._closed:
            raise Unavailable("the store is closed")
        if id(batch) not in self._queues:
            queue = _BatchQueue(self._sessions, batch)
            worker = start_background(queue.work(), name="holdfast-batch", ended_by="BatchQueues.close")
            self._queues[id(batch)] = queue, worker
        return self._queues[id(batch)][0].put(item)

    async def close(self) -> None:
        """Accept no more items, and write those that are queued."""
        self._closed = True
        for queue, working in self._queues.values():
            queue.close()
            await working


class _BatchQueue:
    """Items of one batch kind, applied in the order of submission."""

    def __init__(self, sessions: Sessions, batch: Batch[Any, Any]) -> None:
        self._sessions = sessions
        self._batch = batch
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, item: Any) -> asyncio.Future[Any]:
        """Add an item."""
        job = _Job(item, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        return job.future

    def close(self) -> None:
        """Stop once the queue is empty."""
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
        """Take items with different keys; the second item of a key waits for the next batch."""
        taken: list[_Job] = []
        keys = set()
        while self._waiting and len(taken) < MAX_BATCH_ITEMS:
            key = self._batch.key(self._waiting[0].item)
            if key in keys:
                break
            keys.add(key)
            taken.append(self._waiting.popleft())
        return taken

    async def _write(self, jobs: Sequence[_Job]) -> None:
        """Write a batch; if it fails for a reason that one of its items may have caused, write them one by one."""
        items = [job.item for job in jobs]
        try:
            outcomes = await self._sessions.write_with_retry(lambda tx: self._batch.apply(tx, items))
        except Unavailable as exc:
            _resolve(jobs, [exc] * len(jobs))
        except Exception as exc:  # noqa: BLE001 - every error must reach the caller and not end the queue
            if len(jobs) == 1:
                _resolve(jobs, [exc])
            else:
                for job in jobs:
                    await self._write([job])
        else:
            _resolve(jobs, outcomes)


def _resolve(jobs: Sequence[_Job], outcomes: Sequence[Any]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)
