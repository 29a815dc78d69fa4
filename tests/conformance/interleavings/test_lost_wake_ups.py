"""In any order of two writers' statements, no run stays waiting with unread inbox items."""

from typing import Any

import pytest

from holdfast.domain.commit import Committed, Lease
from holdfast.domain.errors import AlreadyAnswered, Conflict, InboxNotEmpty
from holdfast.domain.ids import InterruptId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.store.store import Store
from tests.builders import SECOND, assistant, claim, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.interleavings.orders import TwoWriters
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    WAITING,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    new_interrupt,
    running,
    status,
)

NOTHING: dict[str, Any] = {}
A_WORD: dict[str, Any] = {"messages": [assistant("bye")], "events": text_events("bye")}


async def put(store: Store, lease: Lease) -> int:
    return await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")


async def unread(store: Store, lease: Lease) -> list[object]:
    """Return the inbox as the next worker reads it."""
    if await status(store, lease.run_id) is RunStatus.QUEUED:
        lease = await claim(store)
    items = [item.data for item in await store.journal.inbox(lease)]
    await store.runs.end(SPACE, lease.run_id)
    return items


@pytest.mark.parametrize("parts", [NOTHING, A_WORD], ids=["silent", "speaking"])
async def test_a_run_that_starts_to_wait_sees_a_concurrent_inbox_item(
    two: TwoWriters, store: Store, parts: dict[str, Any]
) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)

        async def check(number: object, waited: object) -> None:
            refused = isinstance(waited, InboxNotEmpty)
            seen.add(refused)
            assert number == 1
            assert refused or isinstance(waited, Committed)
            assert await status(store, lease.run_id) is (RunStatus.RUNNING if refused else RunStatus.QUEUED)
            assert await unread(store, lease) == ["psst"]

        return put(two.first, lease), commit(two.second, lease, **parts, move=WAITING), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_a_run_that_starts_to_wait_does_not_mistake_a_new_item_for_a_consumed_one(
    two: TwoWriters, store: Store
) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        await put(store, lease)

        async def check(number: object, waited: object) -> None:
            refused = isinstance(waited, InboxNotEmpty)
            seen.add(refused)
            assert number == 2
            assert await status(store, lease.run_id) is (RunStatus.RUNNING if refused else RunStatus.QUEUED)
            assert await unread(store, lease) == ["psst", "psst"][: 2 if refused else 1]

        return put(two.first, lease), commit(two.second, lease, consumed=[1], move=WAITING), check

    await two.explore(scene)
    assert seen == {True, False}


@pytest.mark.parametrize("move", [COMPLETED, FAILED], ids=["completed", "failed"])
async def test_a_run_that_ends_reads_a_concurrent_inbox_item_or_refuses_it(
    two: TwoWriters, store: Store, move: Move
) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)

        async def check(number: object, ended: object) -> None:
            refused = isinstance(ended, InboxNotEmpty)
            seen.add(refused)
            assert refused == (number == 1)
            assert isinstance(number, int if refused else Conflict)
            assert await status(store, lease.run_id) is (RunStatus.RUNNING if refused else move.to)
            if refused:
                await store.runs.end(SPACE, lease.run_id)

        return put(two.first, lease), commit(two.second, lease, move=move), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_of_two_responses_one_is_accepted(two: TwoWriters, store: Store) -> None:
    winners = set()

    async def scene() -> Any:
        lease = await running(store)
        name = InterruptId(f"question-{lease.run_key}")
        await commit(store, lease, interrupts=[new_interrupt(name)], move=WAITING_FOR_PERSON)

        async def check(*outcomes: object) -> None:
            (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Interrupt)]
            assert sum(isinstance(outcome, AlreadyAnswered) for outcome in outcomes) == 1
            winners.add(winner.answered_by)
            assert await store.interrupts.get(SPACE, name) == winner
            assert winner.status is InterruptStatus.ANSWERED
            assert await unread(store, lease) == [{"interrupt_id": name, "response": winner.answered_by}]

        first, second = (
            writer.interrupts.respond(SPACE, name, InterruptResponse(response=by, by=by))
            for writer, by in ((two.first, "ann"), (two.second, "bob"))
        )
        return first, second, check

    await two.explore(scene)
    assert winners == {"ann", "bob"}


async def test_a_parent_that_starts_to_wait_is_notified_of_its_childs_end(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        parent = await running(store)
        await child_of(store, parent.run_id)
        child = await claim(store, SECOND)

        async def check(ended: object, waited: object) -> None:
            refused = isinstance(waited, InboxNotEmpty)
            seen.add(refused)
            assert isinstance(ended, Committed)
            assert await status(store, parent.run_id) is (RunStatus.RUNNING if refused else RunStatus.QUEUED)
            (item,) = await unread(store, parent)
            assert isinstance(item, dict)
            assert item["run_id"] == child.run_id

        waits = Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD)
        return commit(two.first, child, move=COMPLETED), commit(two.second, parent, move=waits), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_a_parent_that_starts_to_wait_is_notified_that_its_child_was_ended(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        parent = await running(store)
        child = await child_of(store, parent.run_id)

        async def check(ended: object, waited: object) -> None:
            refused = isinstance(waited, InboxNotEmpty)
            seen.add(refused)
            assert isinstance(ended, list)
            assert (await get(store, child.id)).status is RunStatus.CANCELLED
            assert await status(store, parent.run_id) is (RunStatus.RUNNING if refused else RunStatus.QUEUED)
            assert len(await unread(store, parent)) == 1

        waits = Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD)
        return two.first.runs.end(SPACE, child.id), commit(two.second, parent, move=waits), check

    await two.explore(scene)
    assert seen == {True, False}
