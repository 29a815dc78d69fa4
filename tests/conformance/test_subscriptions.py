"""Subscriptions: a subscriber is notified of a run's end once, however it ends."""

import asyncio
from pathlib import Path

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, NotFound, WouldDeadlock
from holdfast.domain.ids import RunId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, commit, get, queued, status
from tests.conformance.tables import rows_of


async def two(store: Store) -> list[Lease]:
    """Claim two unrelated runs."""
    for _ in range(2):
        await queued(store)
    return await store.leases.claim(FIRST, lease=MINUTE, limit=2)


async def told(store: Store, lease: Lease) -> list[InboxItem]:
    """Return the notifications of ended runs in a run's inbox."""
    return [item for item in await store.journal.inbox(lease) if item.kind is InboxKind.TASK]


@pytest.mark.parametrize("how", ["completed", "cancelled"])
async def test_the_end_of_a_target_is_notified_once(store: Store, where: str | Path, how: str) -> None:
    one, other = await two(store)
    for _ in range(2):
        assert (await store.subscriptions.add(SPACE, one.run_id, target=other.run_id)).status is RunStatus.RUNNING
    if how == "completed":
        await commit(store, other, move=Move(to=RunStatus.COMPLETED, output={"n": 1}))
    else:
        await store.runs.end(SPACE, other.run_id)
    (item,) = await told(store, one)
    assert isinstance(item.data, dict)
    assert (item.data["run_id"], item.data["status"], item.data["key"]) == (other.run_id, how, "")
    assert item.data["output"] == ({"n": 1} if how == "completed" else None)
    assert (await rows_of(where))["subscriptions"] == []


async def test_each_waiting_step_is_notified_under_its_own_key(store: Store) -> None:
    one, other = await two(store)
    for key in ("a", "b", "a"):
        await store.subscriptions.add(SPACE, one.run_id, target=other.run_id, waits=key)
    await commit(store, other, move=COMPLETED)
    assert [item.data["key"] for item in await told(store, one) if isinstance(item.data, dict)] == ["a", "b"]


async def test_a_target_that_has_ended_sends_no_notification(store: Store, where: str | Path) -> None:
    one, other = await two(store)
    await commit(store, other, move=Move(to=RunStatus.COMPLETED, output="done"))
    found = await store.subscriptions.add(SPACE, one.run_id, target=other.run_id, waits="a")
    assert (found.status, found.output) == (RunStatus.COMPLETED, "done")
    assert (await told(store, one), (await rows_of(where))["subscriptions"]) == ([], [])


async def test_a_notification_wakes_a_waiting_run(store: Store) -> None:
    one, other = await two(store)
    await store.subscriptions.add(SPACE, one.run_id, target=other.run_id, waits="a")
    await commit(store, one, move=Move(to=RunStatus.WAITING, reason=WaitsFor.TASK, waits_on=[other.run_id]))
    await commit(store, other, move=COMPLETED)
    assert await status(store, one.run_id) is RunStatus.QUEUED


async def test_an_ended_run_is_not_notified(store: Store, where: str | Path) -> None:
    one, other = await two(store)
    await store.subscriptions.add(SPACE, one.run_id, target=other.run_id)
    await commit(store, one, move=COMPLETED)
    with pytest.raises(Conflict):
        await store.subscriptions.add(SPACE, one.run_id, target=other.run_id)
    await commit(store, other, move=COMPLETED)
    tables = await rows_of(where)
    assert (tables["inbox"], tables["subscriptions"]) == ([], [])


async def test_a_run_that_waits_for_the_subscriber_cannot_be_waited_for(store: Store) -> None:
    one, other = await two(store)
    await commit(store, one, move=Move(to=RunStatus.WAITING, reason=WaitsFor.TASK, waits_on=[other.run_id]))
    with pytest.raises(WouldDeadlock):
        await store.subscriptions.add(SPACE, other.run_id, target=one.run_id, waits="a")
    assert (await store.subscriptions.add(SPACE, other.run_id, target=one.run_id)).status is RunStatus.WAITING


@pytest.mark.parametrize(("run", "target"), [("nobody", None), (None, "nobody")])
async def test_missing_runs_are_not_found(store: Store, run: str | None, target: str | None) -> None:
    one, other = await two(store)
    with pytest.raises(NotFound, match="there is no run `nobody`"):
        await store.subscriptions.add(SPACE, RunId(run or one.run_id), target=RunId(target or other.run_id))


async def test_an_end_that_races_with_a_subscription_is_notified_or_returned(stores: list[Store]) -> None:
    for _ in range(20):
        one, other = await two(stores[0])
        found, _ = await asyncio.gather(
            stores[-1].subscriptions.add(SPACE, one.run_id, target=other.run_id),
            commit(stores[0], other, move=COMPLETED),
        )
        assert len(await told(stores[0], one)) == (0 if found.status.terminal else 1)
        await stores[0].runs.end(SPACE, one.run_id)


async def test_subscriptions_are_deleted_with_their_runs(store: Store, where: str | Path) -> None:
    one, other = await two(store)
    await store.subscriptions.add(SPACE, one.run_id, target=other.run_id)
    await commit(store, one, move=COMPLETED)
    await store.runs.delete(SPACE, one.run_id)
    assert (await rows_of(where))["subscriptions"] == []


async def test_only_children_that_have_not_ended_are_active(store: Store) -> None:
    one, _ = await two(store)
    children = [
        (await store.runs.create(SPACE, NewRun(thread=NewThread(), parent_run_id=one.run_id))).run for _ in range(3)
    ]
    assert await store.runs.count_active_children(SPACE, one.run_id) == 3
    await store.runs.end(SPACE, children[0].id)
    assert await store.runs.count_active_children(SPACE, one.run_id) == 2


async def test_a_child_that_could_start_only_after_its_parent_cannot_be_awaited(
    store: Store, where: str | Path
) -> None:
    """The child would be queued after a run that waits for its parent."""
    one, other = await two(store)
    await commit(store, one, move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[other.run_id]))
    thread = (await get(store, one.run_id)).thread_id
    new = NewRun(id=RunId("behind"), thread=thread, parent_run_id=other.run_id)
    before = await rows_of(where)
    with pytest.raises(WouldDeadlock):
        await store.runs.create(SPACE, new, awaited=True)
    assert await rows_of(where) == before
    assert (await store.runs.create(SPACE, new)).run.status is RunStatus.PENDING
