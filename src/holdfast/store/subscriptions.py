"""Subscriptions in SQL."""

from collections.abc import Mapping

from holdfast.domain.errors import Conflict
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.run import Run, RunStatus
from holdfast.store.encoding import dump
from holdfast.store.inbox import ended_item, put_item
from holdfast.store.run_rows import run_by_key, run_key_of
from holdfast.store.transaction import Database, Transaction
from holdfast.store.waits import check_wait


class SqlSubscriptions:
    """`Subscriptions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, space: SpaceId, run: RunId, *, target: RunId, waits: str | None = None) -> Run:
        """Have a run told of the end of another."""

        async def subscribe(tx: Transaction) -> Run:
            key, target_key = await run_key_of(tx, space, run), await run_key_of(tx, space, target)
            await tx.lock(runs={key, target_key})
            if RunStatus((await run_by_key(tx, key)).status).terminal:
                raise Conflict(f"run `{run}` has ended: it is told nothing any more", run_id=run)
            found = await run_by_key(tx, target_key)
            if found.status.terminal:
                return found
            if waits is not None:
                await check_wait(tx, (run, key), (target, target_key))
            await tx.run("add_subscription", target_key=target_key, run_key=key, key=waits or "")
            return found

        return await self._database.write(subscribe)


async def tell_subscribers(tx: Transaction, ended: Mapping[int, Run]) -> None:
    """Tell those who wanted to know that runs have ended, here by key."""
    rows = await tx.many("take_subscriptions", [(key,) for key in ended])
    if rows:
        await tx.lock(runs={row["run_key"] for row in rows})
    for row in sorted(rows, key=lambda row: (row["run_key"], row["target_key"], row["key"])):
        data = dump({**await ended_item(tx, ended[row["target_key"]]), "key": row["key"]})
        if await put_item(tx, row["run_key"], kind=InboxKind.TASK, data=data) is not None:
            tx.wake(queue=True)
