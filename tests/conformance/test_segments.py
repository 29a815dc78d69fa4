"""Segments named by clients, and messages found by id on every branch."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.domain.errors import AlreadyAnswered, IdTaken, Invalid, NotFound
from holdfast.domain.events import RunFinished, TextMessageStart
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptResponse, InterruptStatus
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import claim, new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import WAITING_FOR_PERSON, commit, new_interrupt, running, status, waiting_run
from tests.conformance.tables import rows_of

ONE, TWO = InterruptId("one"), InterruptId("two")
NEXT = RunId("the-next-segment")
YES = InterruptResponse(response="yes")


async def asking_twice(store: Store) -> Run:
    """Create a run with two open interrupts, which has ended its segment."""
    lease = await running(store, "begin")
    end = RunFinished(thread_id=lease.thread_id, run_id=lease.run_id)
    await commit(
        store, lease, events=[end], interrupts=[new_interrupt("one"), new_interrupt("two")], move=WAITING_FOR_PERSON
    )
    return await store.runs.get(SPACE, lease.run_id)


async def test_all_responses_are_accepted_together_and_name_the_segment(store: Store) -> None:
    run = await asking_twice(store)
    last = await store.interrupts.respond_all(SPACE, run.id, {ONE: YES, TWO: YES}, segment=NEXT)
    assert last == run.last_event_seq
    for name in (ONE, TWO):
        assert (await store.interrupts.get(SPACE, name)).status is InterruptStatus.ANSWERED
    assert await status(store, run.id) is RunStatus.QUEUED
    items = await store.journal.inbox(await claim(store))
    assert [item.data for item in items] == [
        {"interrupt_id": name, "response": "yes", "segment": NEXT} for name in (ONE, TWO)
    ]


async def test_messages_with_the_responses_are_added_with_them_or_not_at_all(store: Store) -> None:
    run = await asking_twice(store)
    said = [replace(user("and more"), created_by="kim")]
    with pytest.raises(NotFound):
        await store.interrupts.respond_all(SPACE, run.id, {InterruptId("three"): YES}, messages=said)
    await store.interrupts.respond_all(SPACE, run.id, {ONE: YES, TWO: YES}, messages=said)
    *answers, beside = await store.journal.inbox(await claim(store))
    assert [item.kind for item in answers] == [InboxKind.RESPONSE] * 2
    assert (beside.kind, beside.data["content"], beside.created_by) == (InboxKind.MESSAGE, "and more", "kim")


async def test_the_name_of_a_segment_is_another_id_of_its_run(store: Store) -> None:
    run = await waiting_run(store)
    await store.interrupts.respond_all(SPACE, run.id, {InterruptId("question"): YES}, segment=NEXT)
    assert (await store.runs.get(SPACE, NEXT)).id == run.id
    assert [head.run_id for head in await store.events.heads([(SPACE, NEXT)])] == [run.id]
    with pytest.raises(IdTaken):
        await store.runs.create(SPACE, NewRun(thread=NewThread(), id=NEXT))


async def test_an_id_of_the_run_may_name_a_segment_again(store: Store) -> None:
    run = await asking_twice(store)
    for name, interrupt in ((run.id, ONE), (NEXT, TWO)):
        await store.interrupts.respond_all(SPACE, run.id, {interrupt: YES}, segment=name)
    items = await store.journal.inbox(await claim(store))
    assert [item.data["segment"] for item in items] == [run.id, NEXT]
    other = await waiting_run(store, "elsewhere")
    with pytest.raises(IdTaken):
        await store.interrupts.respond_all(SPACE, other.id, {InterruptId("elsewhere"): YES}, segment=NEXT)


async def test_a_segment_need_not_be_named(store: Store) -> None:
    run = await waiting_run(store)
    await store.interrupts.respond_all(SPACE, run.id, {InterruptId("question"): YES})
    (item,) = await store.journal.inbox(await claim(store))
    assert item.data == {"interrupt_id": "question", "response": "yes"}


async def test_the_returned_number_is_that_of_the_last_segment_end_even_while_the_run_is_running(store: Store) -> None:
    run = await asking_twice(store)
    await store.interrupts.respond(SPACE, ONE, YES)
    lease = await claim(store)
    await commit(store, lease, events=[TextMessageStart(message_id=MessageId("m"))])
    assert await store.interrupts.respond_all(SPACE, run.id, {TWO: YES}, segment=NEXT) == run.last_event_seq


@pytest.mark.parametrize(
    ("answers", "segment", "error"),
    [
        ({ONE: YES, InterruptId("three"): YES}, NEXT, NotFound),
        ({ONE: YES, InterruptId("elsewhere"): YES}, NEXT, NotFound),
        ({ONE: YES, TWO: InterruptResponse(response="x", digest="other")}, NEXT, Invalid),
        ({ONE: YES}, RunId("not an id"), Invalid),
        ({ONE: YES}, RunId("used"), IdTaken),
    ],
)
async def test_if_one_response_is_refused_none_is_accepted(
    store: Store,
    where: str | Path,
    answers: dict[InterruptId, InterruptResponse],
    segment: RunId,
    error: type[Exception],
) -> None:
    await waiting_run(store, "elsewhere")
    run = await asking_twice(store)
    await store.runs.create(SPACE, NewRun(thread=NewThread(), id=RunId("used")))
    before = await rows_of(where)
    with pytest.raises(error):
        await store.interrupts.respond_all(SPACE, run.id, answers, segment=segment)
    assert await rows_of(where) == before


async def test_an_answered_interrupt_cannot_be_answered_again(store: Store) -> None:
    run = await asking_twice(store)
    await store.interrupts.respond(SPACE, ONE, YES)
    with pytest.raises(AlreadyAnswered):
        await store.interrupts.respond_all(SPACE, run.id, {ONE: YES, TWO: YES}, segment=NEXT)
    assert (await store.interrupts.get(SPACE, TWO)).status is InterruptStatus.OPEN


async def test_a_response_carries_the_message_id_of_a_client(store: Store) -> None:
    run = await asking_twice(store)
    named = InterruptResponse(response="yes", message_id=MessageId("mine"))
    await store.interrupts.respond_all(SPACE, run.id, {ONE: named, TWO: YES})
    items = await store.journal.inbox(await claim(store))
    assert [item.data.get("message_id") for item in items] == ["mine", None]


@pytest.mark.parametrize(
    ("one", "two", "error"),
    [("first", "mine", IdTaken), ("mine", "mine", IdTaken), ("not an id", "mine", Invalid)],
)
async def test_a_message_id_that_a_response_cannot_have_is_refused(
    store: Store, where: str | Path, one: str, two: str, error: type[Exception]
) -> None:
    thread = await new_thread(store, SPACE)
    await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("begin", id="first")]))
    lease = await claim(store)
    await commit(store, lease, interrupts=[new_interrupt("one"), new_interrupt("two")], move=WAITING_FOR_PERSON)
    before = await rows_of(where)
    answers = {
        name: InterruptResponse(response="yes", message_id=MessageId(id)) for name, id in ((ONE, one), (TWO, two))
    }
    with pytest.raises(error):
        await store.interrupts.respond_all(SPACE, lease.run_id, answers)
    assert await rows_of(where) == before


async def test_the_messages_of_one_id_are_found_on_every_branch_newest_first(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for text in ("first", "second", "third"):
        await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=[user(text, id="m")]))
    await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=[user("other", id="n")]))
    found = await store.messages.find_in_thread(SPACE, thread, MessageId("m"))
    assert [message.content for message in found] == ["third", "second", "first"]
    assert await store.messages.find_in_thread(SPACE, thread, MessageId("nobody")) == []


async def test_messages_are_not_found_in_another_space_or_thread(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("first", id="m")]))
    assert await store.messages.find_in_thread(SPACE, await new_thread(store, SPACE), MessageId("m")) == []
    with pytest.raises(NotFound):
        await store.messages.find_in_thread(OTHER, thread, MessageId("m"))
    with pytest.raises(NotFound):
        await store.messages.find_in_thread(SPACE, ThreadId("nowhere"), MessageId("m"))
