"""The inbox of a run, and the subscriptions and waits that notify runs of the end of other runs.

An inbox item wakes a waiting run in the transaction that adds it.

Deadlock check: a run that starts to wait locks every run that its targets depend on. Of several runs that would wait
for each other in a cycle, the last one to start sees the cycle and is refused.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IdTaken, WouldDeadlock
from holdfast.domain.ids import MessageId, RunId, SpaceId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.instant import instant
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.timer import TimerClaim
from holdfast.store.encoding import dump_json, load_json
from holdfast.store.messages import find_on_chain
from holdfast.store.run_rows import run_by_key, run_key_of, run_row
from holdfast.store.run_state import current_taint
from holdfast.store.timers import settle_timer
from holdfast.store.transaction import Row, SqlPort, Transaction, writes


class SqlInbox(SqlPort):
    """Implements `Inbox`."""

    async def put(
        self,
        space: SpaceId,
        run: RunId,
        *,
        kind: InboxKind,
        data: Json,
        by: str | None = None,
        fires: TimerClaim | None = None,
    ) -> int:
        """Add an item, and queue the run if it waits."""
        text = dump_json(data)

        async def add(tx: Transaction) -> int:
            key = await run_key_of(tx, space, run)
            await tx.lock(runs=[key])
            if kind is InboxKind.MESSAGE and isinstance(data, dict) and data.get("id") is not None:
                await _check_message_id_unused(tx, await run_row(tx, space, run), data["id"])
            if fires is not None:
                await settle_timer(tx, fires)
            number = await put_inbox_item(tx, key, kind=kind, data=text, created_by=by)
            if number is None:
                raise Conflict(f"run `{run}` has ended: it reads no more input", run_id=run)
            tx.hints.add(run=(space, run), queue=True)
            return number

        return await self._database.write(add)


async def put_inbox_item(
    tx: Transaction, run_key: int, *, kind: InboxKind, data: str, created_by: str | None = None
) -> int | None:
    """Add an item to a run's inbox and return its number; `None` if the run has ended."""
    head = await tx.one("add_to_inbox", run_key=run_key, now=tx.now)
    if head is None:
        return None
    number: int = head["last_inbox_number"]
    if head["status"] == RunStatus.QUEUED:  # it may have been waiting: resume its deadline, drop its waits
        if await tx.one("resume_deadline", run_key=run_key, now=tx.lease_now) is not None:
            tx.hints.add(timers=True)
        await tx.run("forget_waits", run_key=run_key)
    await tx.run(
        "add_inbox_item",
        run_key=run_key,
        number=number,
        kind=kind.value,
        data=data,
        created_by=created_by,
        now=tx.now,
    )
    return number


async def _check_message_id_unused(tx: Transaction, run: Row, message: MessageId) -> None:
    """Raise if the id is used on the run's chain or by an unread message; the run is locked."""
    unread = map(to_inbox_item, await tx.all("inbox_of_run", run_key=run["run_key"]))
    messages = [item.data for item in unread if item.kind is InboxKind.MESSAGE and isinstance(item.data, dict)]
    if any(each.get("id") == message for each in messages) or await find_on_chain(tx, run, message) is not None:
        raise IdTaken(f"there is a message `{message}` on the chain of run `{run['id']}` already", id=message)


async def notify_parent(
    tx: Transaction, parent_key: int | None, child: Run, *, ending_keys: Collection[int] = ()
) -> None:
    """Put a child's end into its parent's inbox, unless the parent ends in the same transaction."""
    if parent_key is None or parent_key in ending_keys:
        return
    data = dump_json(await run_ended_data(tx, child))
    if await put_inbox_item(tx, parent_key, kind=InboxKind.CHILD, data=data) is not None:
        tx.hints.add(queue=True)


async def run_ended_data(tx: Transaction, run: Run) -> dict[str, Any]:
    """Return the inbox data that notifies other runs of the end of a run."""
    taint = await current_taint(tx, await run_key_of(tx, run.space_id, run.id))
    return {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "status": run.status,
        "output": run.output,
        "error": run.error,
        **({"taint": taint} if taint else {}),
    }


def to_inbox_item(row: Row) -> InboxItem:
    """Convert a row to an inbox item."""
    return InboxItem(
        number=row["number"],
        kind=InboxKind(row["kind"]),
        data=load_json(row["data"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )


class SqlSubscriptions(SqlPort):
    """Implements `Subscriptions`."""

    @writes
    async def add(self, tx: Transaction, space: SpaceId, run: RunId, *, target: RunId, waits: str | None = None) -> Run:
        """Notify a run of the end of another."""
        key, target_key = await run_key_of(tx, space, run), await run_key_of(tx, space, target)
        await tx.lock(runs={key, target_key})
        if RunStatus((await run_by_key(tx, key)).status).terminal:
            raise Conflict(f"run `{run}` has ended: it cannot subscribe to other runs", run_id=run)
        found = await run_by_key(tx, target_key)
        if found.status.terminal:
            return found
        if waits is not None:
            await check_no_deadlock(tx, (run, key), (target, target_key))
        await tx.run("add_subscription", target_key=target_key, run_key=key, key=waits or "")
        return found


async def notify_subscribers(tx: Transaction, ended: Mapping[int, Run]) -> None:
    """Notify the subscribers of ended runs, which are given by key."""
    rows = await tx.many("take_subscriptions", [(key,) for key in ended])
    if rows:
        await tx.lock(runs={row["run_key"] for row in rows})
    for row in sorted(rows, key=lambda row: (row["run_key"], row["target_key"], row["key"])):
        data = dump_json({**await run_ended_data(tx, ended[row["target_key"]]), "key": row["key"]})
        if await put_inbox_item(tx, row["run_key"], kind=InboxKind.TASK, data=data) is not None:
            tx.hints.add(queue=True)


async def dependencies_of_waits(tx: Transaction, waits: Iterable[tuple[SpaceId, Sequence[RunId]]]) -> frozenset[int]:
    """Return the runs to lock for `waits`: the targets that exist, and all runs that these depend on."""
    rows = [await tx.one("run_key", space=space, id=target) for space, targets in waits for target in targets]
    return await _dependencies(tx, [row["run_key"] for row in rows if row is not None])


async def add_waits(tx: Transaction, lease: Lease, targets: Sequence[RunId], *, locked: frozenset[int]) -> None:
    """Store the runs that a run waits for; refuse if one of them depends on it, by its base or by a wait."""
    for target in targets:
        key = await run_key_of(tx, lease.space_id, target)
        dependencies = await _dependencies(tx, [key])
        while not dependencies <= locked:  # a run was created by this commit, or started to wait meanwhile
            await tx.lock(runs=dependencies)
            locked, dependencies = locked | dependencies, await _dependencies(tx, [key])
        if lease.run_key in dependencies:
            raise _deadlock_error(lease.run_id, target)
        await tx.run("add_wait", run_key=lease.run_key, target_key=key)


async def check_no_deadlock(tx: Transaction, waiter: tuple[RunId, int], target: tuple[RunId, int]) -> None:
    """Refuse a wait that is a cycle already; one that becomes a cycle later is refused when the wait starts."""
    if waiter[1] in await _dependencies(tx, [target[1]]):
        raise _deadlock_error(waiter[0], target[0])


def _deadlock_error(waiter: RunId, target: RunId) -> WouldDeadlock:
    message = f"run `{target}` already waits for run `{waiter}`: do not wait for it"
    return WouldDeadlock(message, run_id=waiter, target=target)


async def _dependencies(tx: Transaction, run_keys: Iterable[int]) -> frozenset[int]:
    """Return these runs and, transitively, all runs that must end or continue before they can."""
    seen = set(run_keys)
    pending = list(seen)
    while pending:
        found = {row["run_key"] for row in await tx.all("depends_on", run_key=pending.pop())} - seen
        seen |= found
        pending += found
    return frozenset(seen)
