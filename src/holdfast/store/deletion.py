"""How a run is forgotten: with its children, and without breaking the chain of what stands on it."""

from typing import Final

from holdfast.domain.errors import RunActive
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.run import RunStatus
from holdfast.store.run_rows import run_key_of, run_row
from holdfast.store.transaction import Again, Row, Transaction

_CONTENT: Final = (
    "drop_values_in_tombstones",
    "keep_inherited_values",
    "drop_messages",
    "drop_events",
    "drop_steps",
    "drop_own_values",
    "drop_inbox",
    "drop_interrupts",
    "drop_artifacts",
    "drop_timers",
    "drop_budget",
    "drop_contexts",
    "drop_subscriptions",
    "forget_idempotency_key",
)


async def delete_run(tx: Transaction, space: SpaceId, run: RunId) -> None:
    """Remove an ended run with the runs below it."""
    key = await run_key_of(tx, space, run)
    tree = await tx.all("tree", run_key=key)
    await tx.lock(threads={row["thread_key"] for row in tree}, runs=[row["run_key"] for row in tree])
    await run_row(tx, space, run)
    locked = await tx.all("tree", run_key=key)
    if len(locked) != len(tree):
        raise Again
    for row in locked:
        if not RunStatus(row["status"]).terminal or row["lease_owner"] is not None:
            raise RunActive(f"run `{run}` or one below it is not finished: end it first", run_id=run)
    for row in reversed(locked):
        await _forget(tx, row)


async def _forget(tx: Transaction, row: Row) -> None:
    """Erase a run's content, and the run too if no other stands on it."""
    run_key = row["run_key"]
    for statement in _CONTENT:
        await tx.run(statement, run_key=run_key)
    if await tx.all("runs_on_base", run_key=run_key):
        await tx.run("erase_run", run_key=run_key)
        await tx.run("erase_head", run_key=run_key)
    else:
        await _remove(tx, run_key)


async def _remove(tx: Transaction, run_key: int) -> None:
    """Remove a run, the bare tombstones it stood on, and the thread that was made for a run if it is empty now."""
    at: int | None = run_key
    while at is not None:
        row = await tx.one("run_identity", run_key=at)
        assert row is not None
        await tx.run("drop_values", run_key=at)
        await tx.run("drop_head", run_key=at)
        await tx.run("drop_run", run_key=at)
        above = row["base_key"]
        bare = None if above is None else await tx.one("bare_tombstone", run_key=above)
        at = None if bare is None else above
        if row["made_for_run"] is not None and await tx.one("any_run_of_thread", thread_key=row["thread_key"]) is None:
            await tx.run("drop_task_numbers", thread_key=row["thread_key"])
            await tx.run("drop_thread", thread_key=row["thread_key"])
