"""The exploration finds errors that only a few orders show."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.domain.inbox import InboxKind
from holdfast.domain.run import RunStatus
from holdfast.store.postgres.transaction import STATEMENTS
from holdfast.store.store import Store
from tests.conformance.conftest import SPACE
from tests.conformance.interleavings.barriers import Statement
from tests.conformance.interleavings.orders import TwoWriters
from tests.conformance.run_builders import WAITING, commit, running, status


async def test_a_fence_that_reads_before_its_lock_is_detected(
    two: TwoWriters, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = STATEMENTS["append"]
    before = "(SELECT u.unread FROM run_heads u WHERE u.run_key = w.run_key)"
    sql = append.sql.replace("h.unread <= w.consumed", f"{before} <= w.consumed")
    assert sql != append.sql
    monkeypatch.setitem(STATEMENTS, "append", replace(append, sql=sql))
    slept = []

    async def scene() -> Any:
        lease = await running(store)

        async def check(*_: object) -> None:
            slept.append(await status(store, lease.run_id) is RunStatus.WAITING)
            await store.runs.end(SPACE, lease.run_id)

        put = two.first.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
        return put, commit(two.second, lease, move=WAITING), check

    orders = await two.explore(scene)
    assert len(set(orders)) == len(orders)
    lost = [order for order, asleep in zip(orders, slept, strict=True) if asleep]
    assert 0 < len(lost) < len(orders)
    assert all("b:append a:commit" in order or "b:append a:add" in order for order in lost)


def test_statements_commute_unless_they_lock_or_write_the_same_rows() -> None:
    read, write, lock, elsewhere, commit = map(
        Statement, ("head", "add_to_inbox", "lock_heads", "add_inbox_item", "commit")
    )
    assert read.swaps_with(write)
    assert write.swaps_with(elsewhere)
    assert not write.swaps_with(lock)
    for statement in (read, write, lock, elsewhere, commit):
        assert not commit.swaps_with(statement)
        assert not statement.swaps_with(commit)
