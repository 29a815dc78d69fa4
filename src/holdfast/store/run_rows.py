"""Lookups of runs by id and by key, and the conversion of a run row to a `Run`."""

from typing import Final

from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant, maybe_instant, millis
from holdfast.domain.limits import Usage, usd
from holdfast.domain.page import Page
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from holdfast.ports.runs import RunFilter
from holdfast.store.encoding import dump_json, load_json, load_limits, load_optional_json, load_run_error, to_page
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, Transaction, find_row

CLOCK_SLACK_MS: Final = 60_000
"""How far the clocks of processes may differ: keys grow with time only within this."""


async def run_row(tx: Transaction, space: SpaceId, run: RunId) -> Row:
    """Return the row of a run in the run view."""
    return await find_row(tx, "run", "run", space=space, id=run)


async def run_key_of(tx: Transaction, space: SpaceId, run: RunId, *, include_deleted: bool = False) -> int:
    """Return the key of a run."""
    statement = "run_key_ever" if include_deleted else "run_key"
    return int((await find_row(tx, statement, "run", space=space, id=run))["run_key"])


async def base_run(tx: Transaction, run_key: int) -> Row | None:
    """Return the columns of a run that the placement of a run based on it needs."""
    return next(iter(await tx.many("base_runs", [(run_key,)])), None)


async def list_runs(tx: Transaction, space: SpaceId, where: RunFilter, *, limit: int, cursor: str | None) -> Page[Run]:
    """Return runs, newest first."""
    key = await space_key(tx, space)
    before = 2**62 if cursor is None else await run_key_of(tx, space, RunId(cursor), include_deleted=True)
    after = 0
    if where.created_from is not None:
        after = await first_run_key(tx, key, millis(where.created_from) - CLOCK_SLACK_MS)
    if where.created_to is not None:
        before = min(before, await first_run_key(tx, key, millis(where.created_to) + CLOCK_SLACK_MS))
    for kind, name in (("memory", where.memory_id), ("skill", where.skill)):
        if name is not None:
            used = await tx.one("run_keys_of_use", space_key=key, kind=kind, name=name)
            if used is None or used["first_key"] is None:
                return Page(items=[], next_cursor=None)
            after, before = max(after, used["first_key"]), min(before, used["last_key"] + 1)
    rows = await tx.all(
        "list_runs",
        space_key=key,
        before=before,
        thread_id=where.thread_id,
        after=after,
        created_from=None if where.created_from is None else millis(where.created_from),
        created_to=None if where.created_to is None else millis(where.created_to),
        any_status=int(not where.statuses),
        statuses=dump_json(where.statuses),
        phase=where.phase and where.phase.value,
        priority=where.priority and where.priority.value,
        agent_type=where.agent_type,
        mode=where.mode and where.mode.value,
        model=where.model,
        any_tags=int(not where.tags),
        tags=dump_json(where.tags),
        memory_id=where.memory_id,
        skill=where.skill,
        root_run_id=where.root_run_id,
        parent_run_id=where.parent_run_id,
        limit=limit + 1,
    )
    return to_page(rows, limit, value=to_run, cursor=lambda row: str(row["id"]))


async def first_run_key(tx: Transaction, space_key: int, time: int) -> int:
    """Return a key so that all runs of a space before it were created before `time`, found by bisection."""
    row = await tx.one("last_run_key", space_key=space_key)
    low, high = 0, 0 if row is None or row["run_key"] is None else int(row["run_key"]) + 1
    while low < high:
        middle = (low + high) // 2
        found = await tx.one("run_from_key", space_key=space_key, run_key=middle)
        assert found is not None  # the last key is not below `middle`
        if found["created_at"] < time:
            low = found["run_key"] + 1
        else:
            high = middle
    return low


async def run_by_key(tx: Transaction, run_key: int) -> Run:
    """Return a run that is known to exist."""
    return to_run(await run_row_by_key(tx, run_key))


async def run_row_by_key(tx: Transaction, run_key: int) -> Row:
    """Return the row in the run view of a run that is known to exist."""
    row = await tx.one("run_by_key", run_key=run_key)
    if row is None:
        raise NotFound("the run was deleted")
    return row


def to_usage(row: Row) -> Usage:
    """Convert the columns of usage to a value."""
    cost = row["cost_nanodollars"]
    return Usage(
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        cached_input_tokens=row["cached_input_tokens"],
        cost_usd=None if cost is None else usd(cost),
    )


def to_run(row: Row) -> Run:
    """Convert a row of the run view to a run."""
    row = dict(zip(row.keys(), row, strict=True))  # a lookup by name is slow in an SQLite row this wide
    return Run(
        id=row["id"],
        thread_id=row["thread_id"],
        space_id=row["space_id"],
        mode=Mode(row["mode"]),
        agent_type=row["agent_type"],
        model=row["model"],
        model_used=row["model_used"],
        status=RunStatus(row["status"]),
        status_reason=row["status_reason"],
        base_run_id=row["base_run_id"],
        base_sequence=row["base_sequence"],
        parent_run_id=row["parent_run_id"],
        root_run_id=row["root_run_id"],
        root_thread_id=row["root_thread_id"],
        child_thread_id=row["child_thread_id"],
        session_id=row["session_id"],
        input=load_optional_json(row["input"]),
        output=load_optional_json(row["output"]),
        error=load_run_error(row["error"]),
        usage=to_usage(row),
        priority=Priority(row["priority"]),
        tags=load_json(row["tags"]),
        limits=load_limits(row["limits"]),
        output_schema=load_optional_json(row["output_schema"]),
        agent_version=row["agent_version"],
        iterations=row["iterations"],
        attempt=row["attempt"],
        wait_until=maybe_instant(row["wait_until"]),
        idempotency_key=row["idempotency_key"],
        last_event_seq=row["last_event_seq"],
        created_by=row["created_by"],
        cancelled_by=row["cancelled_by"],
        created_at=instant(row["created_at"]),
        queued_at=maybe_instant(row["queued_at"]),
        started_at=maybe_instant(row["started_at"]),
        completed_at=maybe_instant(row["completed_at"]),
    )
