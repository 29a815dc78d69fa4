"""Interrupts of descendants: the ancestors of a run are notified when one opens or closes."""

from typing import Any

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import child_of, commit, new_interrupt, running, seconds_from_now, status

QUESTION = {"id": "q", "reason": "input_required"}


async def family(store: Store) -> tuple[Lease, Lease, Lease]:
    """Claim a run, its child and its grandchild."""
    root = await running(store)
    mid = await claim_run(store, await child_of(store, root.run_id))
    return root, mid, await claim_run(store, await child_of(store, mid.run_id))


async def ask(store: Store, lease: Lease, **question: Any) -> None:
    """Wait for a person, and notify the parent."""
    move = Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON, asks=[QUESTION])
    await commit(store, lease, interrupts=[new_interrupt("q", digest=None, **question)], move=move)


async def heard(store: Store, lease: Lease) -> list[tuple[InboxKind, Any]]:
    return [(item.kind, item.data) for item in await store.journal.inbox(lease)]


async def test_a_parent_is_notified_of_its_childs_interrupts(store: Store) -> None:
    root, mid, leaf = await family(store)
    await ask(store, leaf)
    assert await heard(store, mid) == [(InboxKind.CHILD_INTERRUPT, {"run_id": leaf.run_id, "interrupts": [QUESTION]})]
    assert await heard(store, root) == []


async def test_all_ancestors_are_notified_of_a_response(store: Store) -> None:
    root, mid, leaf = await family(store)
    await ask(store, leaf)
    await store.interrupts.respond(SPACE, InterruptId("q"), InterruptResponse(response="yes"))
    closed = (InboxKind.RESPONSE, {"interrupt_id": "q"})
    assert (await heard(store, root), (await heard(store, mid))[1:]) == ([closed], [closed])


async def test_all_ancestors_are_notified_of_an_expiry(store: Store, clock: HeldClock) -> None:
    root, _, leaf = await family(store)
    await ask(store, leaf, expires_at=seconds_from_now(clock, 1))
    clock.tick(MINUTE / 2)
    await store.interrupts.expire()
    assert await heard(store, root) == [(InboxKind.RESPONSE, {"interrupt_id": "q"})]


async def test_all_ancestors_are_notified_of_a_withdrawal(store: Store) -> None:
    root, mid, leaf = await family(store)
    await ask(store, leaf)
    await store.inbox.put(SPACE, leaf.run_id, kind=InboxKind.MESSAGE, data={"role": "user", "content": "x"})
    again = await claim_run(store, leaf.run)
    await commit(store, again, consumed=[1], withdrawn=[InterruptId("q")])
    assert await heard(store, root) == [(InboxKind.RESPONSE, {"interrupt_id": "q"})]
    assert len(await heard(store, mid)) == 2


async def test_an_interrupt_of_a_descendant_is_answered_at_the_root_with_a_segment(store: Store) -> None:
    root, _, leaf = await family(store)
    await ask(store, leaf)
    await commit(store, root, move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD))
    answers = {InterruptId("q"): InterruptResponse(response="yes")}
    await store.interrupts.respond_all(SPACE, root.run_id, answers, segment=RunId("next"))
    assert await status(store, leaf.run_id) is await status(store, root.run_id) is RunStatus.QUEUED
    again = await claim_run(store, root.run)
    assert await heard(store, again) == [(InboxKind.RESPONSE, {"interrupt_id": "q", "segment": "next"})]
    (item,) = await _items(store, leaf)
    assert item.data == {"interrupt_id": "q", "response": "yes"}
    assert (await store.runs.get(SPACE, RunId("next"))).id == root.run_id


async def _items(store: Store, lease: Lease) -> list[InboxItem]:
    return await store.journal.inbox(await claim_run(store, lease.run))


async def test_an_interrupt_cannot_be_answered_through_another_branch(store: Store) -> None:
    root, mid, leaf = await family(store)
    await ask(store, mid)
    with pytest.raises(NotFound, match="has no interrupt `q`"):
        await store.interrupts.respond_all(SPACE, leaf.run_id, {InterruptId("q"): InterruptResponse(response="yes")})
    assert await heard(store, leaf) == []
    assert len(await heard(store, root)) == 1


@pytest.mark.parametrize(
    "move",
    [
        Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, asks=[QUESTION]),
        Move(to=RunStatus.COMPLETED, asks=[QUESTION]),
    ],
)
async def test_only_a_run_that_waits_for_a_person_lists_interrupts(store: Store, move: Move) -> None:
    root, *_ = await family(store)
    with pytest.raises(Invalid, match="`asks` requires a move to `waiting`"):
        await commit(store, root, move=move)


async def test_the_open_interrupts_of_a_run_include_those_it_shows(store: Store) -> None:
    root, mid, leaf = await family(store)
    await ask(store, leaf)
    assert await store.interrupts.open_for_run(SPACE, root.run_id) == []
    await commit(store, root, values={"asking": {mid.run_id: [QUESTION]}})
    (shown,) = await store.interrupts.open_for_run(SPACE, root.run_id)
    assert (shown.id, shown.run_id) == ("q", leaf.run_id)
    await store.interrupts.respond(SPACE, InterruptId("q"), InterruptResponse(response="yes"))
    assert await store.interrupts.open_for_run(SPACE, root.run_id) == []
