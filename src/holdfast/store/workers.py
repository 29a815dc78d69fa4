"""Workers and the queue of a space in SQL; every read costs what has not ended, never what has."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from holdfast.domain.ids import ApiKeyId, OwnerId, SpaceId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, check_page_size
from holdfast.domain.run import Priority, RunStatus
from holdfast.domain.worker import (
    WORKER_TIMEOUT_SECONDS,
    HeldRun,
    NewWorker,
    Queue,
    QueueCounts,
    QueuedRun,
    SpaceBacklog,
    SpaceBacklogs,
    SpaceQueue,
    WorkerStatus,
    check_space_queue,
)
from holdfast.store.encoding import dump_json, load_json, parse_cursor, to_page
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes

WORKER_TIMEOUT_MS: Final = round(WORKER_TIMEOUT_SECONDS * 1000)
FORGET_WORKERS_MS: Final = 24 * 3600 * 1000


class SqlWorkers(SqlPort):
    """Implements `Workers`."""

    @writes
    async def beat(self, tx: Transaction, worker: NewWorker, *, api_key: ApiKeyId | None = None) -> None:
        """Note that a worker lives."""
        await tx.run(
            "beat_worker",
            id=worker.id,
            host=worker.host,
            pid=worker.pid,
            version=worker.version,
            concurrency=worker.concurrency,
            pools=dump_json(worker.pools),
            api_key=api_key,
            now=tx.now,
        )

    @writes
    async def leave(self, tx: Transaction, worker: OwnerId, *, api_key: ApiKeyId | None = None) -> None:
        """Forget a worker, and those that died long ago."""
        await tx.run("forget_workers", id=worker, api_key=api_key, before=tx.now - FORGET_WORKERS_MS)

    @reads
    async def of_space(self, tx: Transaction, space: SpaceId) -> list[WorkerStatus]:
        """Return all workers with the runs of a space that they hold."""
        key = await space_key(tx, space)
        held = await tx.all("held_runs")
        found = []
        for row in await tx.all("workers"):
            own = [each for each in held if each["lease_owner"] == row["id"]]
            here = [each for each in own if each["space_key"] == key]
            found.append(
                WorkerStatus(
                    **{name: row[name] for name in ("id", "host", "pid", "version", "concurrency", "lost_leases")},
                    pools=load_json(row["pools"]),
                    started_at=instant(row["started_at"]),
                    last_beat_at=instant(row["last_beat_at"]),
                    alive=tx.now - row["last_beat_at"] <= WORKER_TIMEOUT_MS,
                    runs=[_to_held_run(each) for each in here],
                    other_runs=len(own) - len(here),
                )
            )
        return found

    @reads
    async def queue(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Queue:
        """Return the queue of a space."""
        check_page_size(limit)
        part, place, run_key = parse_cursor(cursor, first_page=[0, -1, -1])
        key = await space_key(tx, space)
        counts = await tx.one("queue_counts", space_key=key)
        assert counts is not None
        ready = await tx.all("ready_by_priority", space_key=key)
        rows = await tx.all("queued_runs", space_key=key, part=part, place=place, run_key=run_key, limit=limit + 1)
        page = to_page(
            rows, limit, value=_to_queued_run, cursor=lambda row: f"{row['part']}.{row['place']}.{row['run_key']}"
        )
        oldest = min((row["oldest"] for row in ready), default=tx.now)
        return Queue(
            counts=QueueCounts(
                ready=sum(row["ready"] for row in ready),
                **{name: counts[name] for name in ("delayed", "pending", "running", "waiting")},
            ),
            by_priority=_by_priority(ready, "ready"),
            oldest_ready_seconds=max(tx.now - oldest, 0) / 1000,
            items=page.items,
            next_cursor=page.next_cursor,
        )

    @reads
    async def backlogs(self, tx: Transaction, *, limit: int = DEFAULT_PAGE_SIZE) -> SpaceBacklogs:
        """Return what waits and works in each space."""
        check_page_size(limit)
        rows = await tx.all("backlogs")
        found = [_to_backlog(list(own), now=tx.now) for _, own in groupby(rows, key=lambda row: row["space_id"])]
        found.sort(key=lambda each: (not each.ready, -each.oldest_ready_seconds))
        return SpaceBacklogs(items=found[:limit], total=len(found))

    @reads
    async def space_queue(self, tx: Transaction, space: SpaceId) -> SpaceQueue:
        """Return how a space shares the workers."""
        row = await tx.one("space_queue", space_key=await space_key(tx, space))
        return SpaceQueue() if row is None else SpaceQueue(weight=row["weight"], max_running=row["max_running"])

    @writes
    async def put_space_queue(self, tx: Transaction, space: SpaceId, queue: SpaceQueue) -> SpaceQueue:
        """Set how a space shares the workers."""
        check_space_queue(queue)
        key = await lock_space_shared(tx, space)
        await tx.run("put_space_queue", space_key=key, weight=queue.weight, max_running=queue.max_running)
        tx.hints.add(queue=True)  # a higher limit lets waiting runs start
        return queue


def _to_held_run(row: Row) -> HeldRun:
    return HeldRun(
        **{name: row[name] for name in ("run_id", "thread_id", "agent_type", "title", "step")},
        since=maybe_instant(row["leased_at"]),
        lease_expires_at=instant(row["lease_expires_at"]),
    )


def _to_backlog(rows: Sequence[Row], *, now: int) -> SpaceBacklog:
    """Return the backlog of a space from its rows, one for each part and priority."""
    first, ready = rows[0], [row for row in rows if row["part"] == "ready"]
    counts = {part: sum(row["runs"] for row in rows if row["part"] == part) for part in ("ready", "delayed", "running")}
    return SpaceBacklog(
        space_id=SpaceId(first["space_id"]),
        by_priority=_by_priority(ready, "runs"),
        oldest_ready_seconds=max(now - min((row["oldest"] for row in ready), default=now), 0) / 1000,
        weight=first["weight"] or 1,
        max_running=first["max_running"],
        **counts,
    )


def _by_priority(rows: Sequence[Row], column: str) -> dict[str, int]:
    return {priority.value: 0 for priority in Priority} | {row["priority"]: row[column] for row in rows}


def _to_queued_run(row: Row) -> QueuedRun:
    return QueuedRun(
        **{name: row[name] for name in ("run_id", "thread_id", "agent_type", "title", "pool", "attempt")},
        priority=Priority(row["priority"]),
        status=RunStatus(row["status"]),
        reason=row["status_reason"],
        queued_at=maybe_instant(row["queued_at"]),
        wait_until=maybe_instant(row["wait_until"]),
    )
