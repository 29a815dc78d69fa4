"""`Interrupts`: durable requests to people, answered once."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import AlreadyAnswered, Conflict, Invalid, NotFound
from holdfast.domain.ids import InterruptId, ToolCallId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import instant
from holdfast.domain.interrupt import (
    DEFAULT_INTERRUPT_TIMEOUT_MS,
    Interrupt,
    InterruptKind,
    InterruptResponse,
    InterruptStatus,
)
from holdfast.domain.run import RunStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, SECOND, assistant, call, claim
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import (
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    new_interrupt,
    running,
    seconds_from_now,
    status,
    waiting_run,
)
from tests.conformance.tables import rows_of

QUESTION = InterruptId("question")


async def answer(store: Store, response: Any = True, **options: Any) -> Interrupt:
    return await store.interrupts.respond(SPACE, QUESTION, InterruptResponse(response=response, **options))


async def test_an_interrupt_is_read_back_unchanged(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    new = new_interrupt(
        "question",
        kind=InterruptKind.CLIENT_TOOL,
        message="may I?",
        tool_call_id=ToolCallId("c1"),
        arguments={"path": "/"},
        digest="d1",
        response_schema={"type": "boolean"},
        default=False,
        metadata={"risk": "high"},
        expires_at=seconds_from_now(clock, 60),
    )
    await commit(store, lease, messages=[assistant("", call("c1"))], interrupts=[new], move=WAITING_FOR_PERSON)
    kept = await store.interrupts.get(SPACE, QUESTION)
    for field in new.__struct_fields__:
        assert getattr(kept, field) == getattr(new, field)
    assert (kept.run_id, kept.thread_id, kept.root_run_id) == (lease.run_id, lease.thread_id, lease.run_id)
    assert (kept.status, kept.response, kept.answered_by, kept.answered_at) == (InterruptStatus.OPEN, None, None, None)
    assert kept.created_at == seconds_from_now(clock, 0)


async def test_an_interrupt_that_does_not_exist_is_not_found(store: Store) -> None:
    await waiting_run(store)
    with pytest.raises(NotFound):
        await store.interrupts.get(SPACE, InterruptId("another"))
    with pytest.raises(NotFound):
        await store.interrupts.get(OTHER, QUESTION)


async def test_an_interrupt_is_given_an_id_and_a_deadline(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(
        store, lease, interrupts=[new_interrupt("x", id=None), new_interrupt("y", id=None)], move=WAITING_FOR_PERSON
    )
    first, second = await store.interrupts.of_run(SPACE, lease.run_id)
    assert first.id != second.id
    assert first.expires_at == instant(type(clock.now())(clock.now() + DEFAULT_INTERRUPT_TIMEOUT_MS))


async def test_the_interrupts_of_a_run_come_oldest_first(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, interrupts=[new_interrupt("b"), new_interrupt("a")], move=WAITING_FOR_PERSON)
    await store.interrupts.respond(SPACE, InterruptId("b"), InterruptResponse(response=1))
    lease = await claim(store)
    await commit(store, lease, consumed=[1], interrupts=[new_interrupt("c")], move=WAITING_FOR_PERSON)
    found = await store.interrupts.of_run(SPACE, lease.run_id)
    assert [interrupt.id for interrupt in found] == ["b", "a", "c"]


async def test_the_interrupts_of_children_show_at_the_root(store: Store) -> None:
    root = await running(store)
    child = await child_of(store, root.run_id)
    child_lease = await claim(store, SECOND)
    grandchild = await child_of(store, child.id)
    lease = await claim(store, SECOND)
    await commit(store, lease, interrupts=[new_interrupt("deep")], move=WAITING_FOR_PERSON)
    await commit(store, child_lease, interrupts=[new_interrupt("middle")], move=WAITING_FOR_PERSON)
    await commit(store, root, interrupts=[new_interrupt("top")], move=WAITING_FOR_PERSON)
    found = await store.interrupts.of_run(SPACE, root.run_id, below=True)
    assert [(interrupt.id, interrupt.run_id) for interrupt in found] == [
        ("deep", grandchild.id),
        ("middle", child.id),
        ("top", root.run_id),
    ]
    assert {interrupt.root_run_id for interrupt in found} == {root.run_id}
    assert [interrupt.id for interrupt in await store.interrupts.of_run(SPACE, root.run_id)] == ["top"]


async def test_the_interrupts_of_a_space_come_in_pages_newest_first(store: Store) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await waiting_run(store, name)
    await store.interrupts.respond(SPACE, InterruptId("c"), InterruptResponse(response=1))

    async def names(status: InterruptStatus | None) -> list[list[str]]:
        pages, cursor, more = [], None, True
        while more:
            page = await store.interrupts.page(SPACE, status=status, limit=2, cursor=cursor)
            pages.append([str(interrupt.id) for interrupt in page.items])
            cursor = page.next_cursor
            more = cursor is not None
        return pages

    assert await names(InterruptStatus.OPEN) == [["e", "d"], ["b", "a"]]
    assert await names(None) == [["e", "d"], ["c", "b"], ["a"]]
    assert await names(InterruptStatus.ANSWERED) == [["c"]]
    assert (await store.interrupts.page(OTHER)).items == []


async def test_a_response_settles_its_interrupt_and_wakes_its_run(store: Store, clock: HeldClock) -> None:
    run = await waiting_run(store)
    clock.tick(MINUTE)
    settled = await answer(store, {"approved": True}, by="ann")
    assert settled == await store.interrupts.get(SPACE, QUESTION)
    assert (settled.status, settled.response, settled.answered_by) == (
        InterruptStatus.ANSWERED,
        {"approved": True},
        "ann",
    )
    assert settled.answered_at == seconds_from_now(clock, 0)
    assert await status(store, run.id) is RunStatus.QUEUED
    (item,) = await store.journal.inbox(await claim(store))
    assert (item.kind, item.created_by) == (InboxKind.RESPONSE, "ann")
    assert item.data == {"interrupt_id": "question", "response": {"approved": True}}


async def test_a_response_to_one_of_two_interrupts_wakes_the_run_too(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, interrupts=[new_interrupt("question"), new_interrupt("other")], move=WAITING_FOR_PERSON)
    await answer(store)
    assert await status(store, lease.run_id) is RunStatus.QUEUED
    assert [interrupt.id for interrupt in (await store.interrupts.page(SPACE)).items] == ["other"]


async def test_an_interrupt_may_be_answered_while_its_run_does_something_else(store: Store) -> None:
    run = await waiting_run(store)
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="by the way")
    lease = await claim(store)
    await answer(store)
    assert [item.kind for item in await store.journal.inbox(lease)] == [InboxKind.MESSAGE, InboxKind.RESPONSE]
    assert await status(store, run.id) is RunStatus.RUNNING


async def test_of_many_concurrent_responses_one_is_accepted(stores: list[Store]) -> None:
    run = await waiting_run(stores[0])
    outcomes = await asyncio.gather(
        *(answer(stores[number % len(stores)], number, by=f"person-{number}") for number in range(100)),
        return_exceptions=True,
    )
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Interrupt)]
    assert sum(isinstance(outcome, AlreadyAnswered) for outcome in outcomes) == 99
    kept = await stores[0].interrupts.get(SPACE, QUESTION)
    assert kept == winner
    assert kept.answered_by == f"person-{kept.response}"
    assert (await get(stores[0], run.id)).status is RunStatus.QUEUED
    (item,) = await stores[0].journal.inbox(await claim(stores[0]))
    assert item.data == {"interrupt_id": "question", "response": kept.response}


async def test_a_response_must_match_the_digest_of_the_arguments(store: Store, where: str | Path) -> None:
    await waiting_run(store, digest="of these arguments")
    before = await rows_of(where)
    with pytest.raises(Invalid):
        await answer(store, digest="of other arguments")
    assert await rows_of(where) == before
    assert (await answer(store, digest="of these arguments")).status is InterruptStatus.ANSWERED


async def test_an_approval_must_contain_the_digest(store: Store, where: str | Path) -> None:
    await waiting_run(store, digest="of these arguments")
    before = await rows_of(where)
    with pytest.raises(Invalid):
        await answer(store)
    assert await rows_of(where) == before


async def test_an_expired_interrupt_refuses_every_response(store: Store, where: str | Path, clock: HeldClock) -> None:
    await waiting_run(store, expires_at=seconds_from_now(clock, 60))
    clock.tick(MINUTE)
    before = await rows_of(where)
    with pytest.raises(AlreadyAnswered):
        await answer(store)
    assert await rows_of(where) == before


async def test_an_interrupt_may_be_answered_until_it_expires(store: Store, clock: HeldClock) -> None:
    await waiting_run(store, expires_at=seconds_from_now(clock, 60))
    clock.tick(MINUTE - timedelta(milliseconds=1))
    assert (await answer(store)).status is InterruptStatus.ANSWERED


async def test_an_interrupt_of_an_ended_run_refuses_every_response(store: Store, where: str | Path) -> None:
    run = await waiting_run(store)
    await store.runs.end(SPACE, run.id)
    before = await rows_of(where)
    with pytest.raises(AlreadyAnswered):
        await answer(store)
    assert await rows_of(where) == before


async def test_an_interrupt_id_is_used_once_in_a_space(store: Store) -> None:
    await waiting_run(store)
    lease = await running(store)
    with pytest.raises(Conflict):
        await commit(store, lease, interrupts=[new_interrupt("question")], move=WAITING_FOR_PERSON)
    assert await status(store, lease.run_id) is RunStatus.RUNNING
