"""The history of a run is its chain, read in pages."""

from typing import Any

import pytest

from holdfast.domain.commit import Commit
from holdfast.domain.errors import IdTaken, Invalid, NotFound
from holdfast.domain.ids import MessageId, RunId, ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Run, RunStatus
from holdfast.store.store import Store
from tests.builders import assistant, call, new_thread, result, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import (
    base_on,
    claim_run,
    complete,
    completed_run,
    create_run,
    ended_run,
    expect_refusal,
    history_texts,
    sequences,
    texts,
)


async def _chain(store: Store, thread: ThreadId, count: int) -> list[Run]:
    """Create runs one after the other, with two messages each."""
    return [await completed_run(store, thread, f"q{number}", f"a{number}") for number in range(count)]


async def test_the_history_of_a_run_is_its_own_messages_and_those_of_its_bases(store: Store) -> None:
    first, second, third = await _chain(store, await new_thread(store, SPACE), 3)
    assert await history_texts(store, first) == ["q0", "a0"]
    assert await history_texts(store, second) == ["q0", "a0", "q1", "a1"]
    assert await history_texts(store, third) == ["q0", "a0", "q1", "a1", "q2", "a2"]


async def test_a_message_is_read_back_unchanged(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "look"))
    said = [assistant("looking", call("c1", "look", at=["ä", None]), id="chosen"), result("c1", "seen")]
    committed = await store.journal.commit(Commit(lease=lease, messages=said))
    run = await complete(store, lease)
    asked, calling, answer = await store.messages.history(SPACE, run.id)
    assert [message.id for message in (calling, answer)] == list(committed.message_ids)
    assert sequences([asked, calling, answer]) == [0, *committed.sequences] == [0, 1, 2]
    assert (calling.id, calling.role, calling.tool_calls) == ("chosen", Role.ASSISTANT, said[0].tool_calls)
    assert (answer.role, answer.tool_call_id, answer.content) == (Role.TOOL, "c1", "seen")
    assert {message.run_id for message in (asked, calling, answer)} == {run.id}


async def test_the_last_messages_come_first_and_the_page_before_from_its_first(store: Store) -> None:
    run = (await _chain(store, await new_thread(store, SPACE), 4))[-1]
    whole = await store.messages.history(SPACE, run.id)
    assert sequences(whole) == list(range(8))
    for limit in (1, 2, 3, 5, 7, 8, 9, 1000):
        pages = [await store.messages.history(SPACE, run.id, limit=limit)]
        while len(pages[0]) == limit:
            pages.insert(0, await store.messages.history(SPACE, run.id, limit=limit, before=pages[0][0].sequence))
        assert [message for page in pages for message in page] == whole


async def test_history_returns_50_messages_by_default(store: Store) -> None:
    run = await ended_run(store, await new_thread(store, SPACE), *(str(number) for number in range(60)))
    assert texts(await store.messages.history(SPACE, run.id)) == [str(number) for number in range(10, 60)]


async def test_history_before_a_message_returns_the_messages_before_it(store: Store) -> None:
    run = (await _chain(store, await new_thread(store, SPACE), 3))[-1]
    whole = await history_texts(store, run)
    for sequence in range(6):
        assert await history_texts(store, run, before=sequence) == whole[:sequence]


async def test_a_before_that_is_not_on_the_chain_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "one", "two", "three")  # 0, 1, 2
    left = await completed_run(store, thread, "left", base=base_on(root))  # 3
    right = await completed_run(store, thread, "right", "r", base=base_on(root, 1))  # 4, 5
    on_top = await completed_run(store, thread, "top", base=base_on(right))  # 6
    await completed_run(store, await new_thread(store, SPACE), *"abcdefgh")
    for run, strange in [(root, (3, 4)), (left, (4, 5)), (right, (2, 3, 6)), (on_top, (2, 3))]:
        for before in (*strange, 7, -1, 2**63, 2**70):
            async with expect_refusal(store, Invalid):
                await history_texts(store, run, before=before)
    assert await history_texts(store, on_top, before=5) == ["one", "two", "right"]


async def test_a_base_shows_only_messages_up_to_the_base_sequence(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "one", "two", "three", "four")
    cut = await completed_run(store, thread, "five", "six", "seven", base=base_on(root, 1))
    again = await completed_run(store, thread, "eight", base=base_on(cut, 5))
    assert await history_texts(store, again) == ["one", "two", "five", "six", "eight"]
    for limit, heard in [(1, ["eight"]), (2, ["six", "eight"]), (3, ["five", "six", "eight"])]:
        assert await history_texts(store, again, limit=limit) == heard
    assert await history_texts(store, again, limit=4) == ["two", "five", "six", "eight"]
    assert await history_texts(store, again, limit=1, before=4) == ["two"]
    assert await history_texts(store, again, limit=1, before=1) == ["one"]
    assert await history_texts(store, again, before=0) == []


async def test_nested_base_sequences_are_read_in_pages_of_one(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    run = await completed_run(store, thread, "0", "1", "2")
    whole = ["0", "1"]
    for number in range(5):
        cut = (await store.messages.of_run(SPACE, run.id))[1].sequence
        run = await completed_run(store, thread, f"a{number}", f"b{number}", "cut away", base=base_on(run, cut))
        whole += [f"a{number}", f"b{number}"]
    whole.append("cut away")
    heard, before = list[str](), None
    while page := await store.messages.history(SPACE, run.id, limit=1, before=before):
        heard.insert(0, str(page[0].content))
        before = page[0].sequence
    assert heard == whole


async def test_forks_of_one_run_do_not_see_each_others_messages(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "root", "r")
    forks = [await create_run(store, thread, f"fork {number}", base=base_on(root)) for number in range(3)]
    leases = [await claim_run(store, fork) for fork in forks]
    for word in ("one", "two"):
        for number, lease in enumerate(leases):
            await store.journal.commit(Commit(lease=lease, messages=[assistant(f"{number} {word}")]))
    for number, fork in enumerate(forks):
        history = await store.messages.history(SPACE, fork.id)
        assert texts(history) == ["root", "r", f"fork {number}", f"{number} one", f"{number} two"]
        assert sequences(history) == [0, 1, 2 + number, 5 + number, 8 + number]


async def test_runs_without_messages_do_not_break_the_chain(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await completed_run(store, thread, "one", "1")
    for _ in range(7):
        await ended_run(store, thread)  # a retry says nothing of its own
    retried = await complete(store, await claim_run(store, await create_run(store, thread)), "2")
    for _ in range(2):
        await ended_run(store, thread)
    last = await ended_run(store, thread)
    assert await history_texts(store, last) == ["one", "1", "2"]
    assert await history_texts(store, last, limit=1) == ["2"]
    assert await history_texts(store, last, limit=2) == ["1", "2"]
    assert await history_texts(store, last, limit=1, before=2) == ["1"]
    assert await history_texts(store, retried, before=0) == []


async def test_a_run_without_messages_on_its_chain_has_an_empty_history(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await ended_run(store, thread)
    assert await history_texts(store, await ended_run(store, thread)) == []


async def test_waiting_input_comes_last_and_has_no_sequence(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await create_run(store, thread, "one")
    second = await create_run(store, thread, "two", "three")
    history = await store.messages.history(SPACE, second.id)
    assert (texts(history), sequences(history)) == (["one", "two", "three"], [0, None, None])
    for limit, heard in [(1, ["three"]), (2, ["two", "three"]), (3, ["one", "two", "three"])]:
        assert await history_texts(store, second, limit=limit) == heard
    assert await history_texts(store, second, before=0) == []
    assert await store.messages.get(SPACE, second.id, history[1].id) == history[1]
    await complete(store, await claim_run(store, first), "1")
    history = await store.messages.history(SPACE, second.id)
    assert (texts(history), sequences(history)) == (["one", "1", "two", "three"], [0, 1, 2, 3])


async def test_a_page_of_history_has_1_to_1000(store: Store) -> None:
    run = await ended_run(store, await new_thread(store, SPACE), "hello")
    for limit in (0, -1, 1001, 2**70):
        async with expect_refusal(store, Invalid):
            await history_texts(store, run, limit=limit)


async def test_the_messages_of_a_run_alone_are_its_own(store: Store) -> None:
    first, second = await _chain(store, await new_thread(store, SPACE), 2)
    assert texts(await store.messages.of_run(SPACE, first.id)) == ["q0", "a0"]
    assert texts(await store.messages.of_run(SPACE, second.id)) == ["q1", "a1"]


async def test_a_message_is_found_by_id_only_on_the_chain(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "one", "two", "three")
    left = await completed_run(store, thread, "left", base=base_on(root))
    right = await completed_run(store, thread, "right", base=base_on(root, 1))
    ids = [message.id for message in await store.messages.of_run(SPACE, root.id)]
    (left_id,) = [message.id for message in await store.messages.of_run(SPACE, left.id)]
    for run, heard in [(root, ids), (left, [*ids, left_id]), (right, ids[:2])]:
        for id in heard:
            assert (await store.messages.get(SPACE, run.id, id)).id == id
    for run, id in [(root, left_id), (right, left_id), (right, ids[2]), (root, MessageId("missing"))]:
        async with expect_refusal(store, NotFound):
            await store.messages.get(SPACE, run.id, id)


async def _edit(store: Store, base: RunBase | None, revised: MessageId, text: str, thread: ThreadId) -> Run:
    """Create a run with a message that revises `revised`, under the same id."""
    said = NewMessage(id=revised, role=Role.USER, content=text, revises=revised)
    return (await store.runs.create(SPACE, NewRun(thread=thread, base=base, messages=[said]))).run


async def test_editing_an_old_message_is_a_fork_before_it(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    one = await completed_run(store, thread, "one", "1")
    two = (await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("two", id="m2")]))).run
    await complete(store, await claim_run(store, two), "2")
    three = await completed_run(store, thread, "three", "3")
    edited = await _edit(store, base_on(one), MessageId("m2"), "zwei", thread)
    await complete(store, await claim_run(store, edited), "II")
    assert await history_texts(store, edited) == ["one", "1", "zwei", "II"]
    assert await history_texts(store, three) == ["one", "1", "two", "2", "three", "3"]
    for run, text, revises in [(three, "two", None), (edited, "zwei", "m2")]:
        message = await store.messages.get(SPACE, run.id, MessageId("m2"))
        assert (message.content, message.revises) == (text, revises)


async def test_editing_the_first_message_of_a_thread_is_a_new_root(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = (await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("one", id="m1")]))).run
    edited = await _edit(store, None, MessageId("m1"), "uno", thread)
    assert await history_texts(store, edited) == ["uno"]
    assert await history_texts(store, first) == ["one"]


async def test_editing_a_message_in_the_middle_of_a_run_keeps_its_id(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "one"))
    steered = [assistant("1"), user("also", id="m2"), assistant("2")]
    await store.journal.commit(Commit(lease=lease, messages=steered))
    run = await complete(store, lease)
    edited = await _edit(store, base_on(run, 1), MessageId("m2"), "rather", thread)
    assert await history_texts(store, edited) == ["one", "1", "rather"]
    assert (await store.messages.get(SPACE, edited.id, MessageId("m2"))).content == "rather"
    async with expect_refusal(store, IdTaken):
        await _edit(store, base_on(run, 2), MessageId("m2"), "too late", thread)
    async with expect_refusal(store, IdTaken):
        await _edit(store, base_on(edited), MessageId("m2"), "twice", thread)


async def test_history_of_an_ended_run_has_no_call_without_its_result(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "look"))
    await store.journal.commit(Commit(lease=lease, messages=[assistant("", call("a"), call("b")), result("a")]))
    run = await create_run(store, thread, "and", id=RunId("next"))
    await store.runs.end(SPACE, lease.run_id, to=RunStatus.FAILED)
    await store.leases.release(lease)
    history = await store.messages.history(SPACE, run.id)
    assert [message.tool_call_id for message in history] == [None, None, "a", "b", None]
    assert sequences(history) == [0, 1, 2, 3, 4]


async def test_waiting_input_of_the_whole_chain_comes_last_in_order(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "first"))
    second = await create_run(store, thread, "second", "and")
    silent = await create_run(store, thread)
    third = await create_run(store, thread, "third")
    assert await history_texts(store, third) == ["first", "second", "and", "third"]
    assert await history_texts(store, silent) == ["first", "second", "and"]
    assert await history_texts(store, second) == ["first", "second", "and"]
    await store.runs.end(SPACE, second.id)  # before it could begin
    assert await history_texts(store, third) == ["first", "second", "and", "third"]
    await complete(store, lease, "answer")
    assert await history_texts(store, third) == ["first", "answer", "second", "and", "third"]
    await store.runs.end(SPACE, silent.id)
    assert await history_texts(store, third) == ["first", "answer", "second", "and", "third"]


async def test_waiting_input_is_paged_by_id_even_if_it_gets_a_sequence_meanwhile(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "1", "2"))
    await create_run(store, thread, "3", "4")
    last = await create_run(store, thread, "5", "6", "7")
    whole = ["1", "2", "3", "4", "5", "6", "7"]
    for limit in (1, 2, 3, 5, 7, 8):
        pages = [await store.messages.history(SPACE, last.id, limit=limit)]
        while len(pages[0]) == limit:
            pages.insert(0, await store.messages.history(SPACE, last.id, limit=limit, before=pages[0][0].cursor))
        assert [text for page in pages for text in texts(page)] == whole
    (six, _) = await store.messages.history(SPACE, last.id, limit=2)
    await complete(store, lease)
    assert texts(await store.messages.history(SPACE, last.id, limit=2, before=six.cursor)) == ["4", "5"]
    for strange in ("missing", "1"):
        async with expect_refusal(store, Invalid):
            await store.messages.history(SPACE, last.id, before=MessageId(strange))


async def _started(store: Store, thread: ThreadId, message: NewMessage) -> Run:
    return (await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=[message]))).run


async def _revise(store: Store, thread: ThreadId, revises: str, text: str, *, id: str) -> None:
    message = NewMessage(id=MessageId(id), role=Role.USER, content=text, revises=MessageId(revises))
    await complete(store, await claim_run(store, await _started(store, thread, message)))


async def _revisions(store: Store, thread: ThreadId, message: str, **page: Any) -> list[str]:
    return texts((await store.messages.revisions(SPACE, thread, MessageId(message), **page)).items)


async def test_the_revisions_of_a_message_are_all_its_versions_on_any_branch(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = NewMessage(id=MessageId("m"), role=Role.USER, content="one")
    await complete(store, await claim_run(store, await _started(store, thread, first)), "answer")
    assert await _revisions(store, thread, "m") == ["one"]
    await _revise(store, thread, "m", "two", id="m")  # as AG-UI does
    await _revise(store, thread, "m", "three", id="n")
    await _revise(store, thread, "n", "four", id="o")
    await ended_run(store, thread, "another")
    for name in "mno":
        assert await _revisions(store, thread, name) == ["one", "two", "three", "four"]


async def test_revisions_are_read_in_pages(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = NewMessage(id=MessageId("m"), role=Role.USER, content="0")
    await complete(store, await claim_run(store, await _started(store, thread, first)))
    for number in range(1, 5):
        await _revise(store, thread, "m", str(number), id=f"m{number}")
    read: list[str] = []
    cursor = None
    while True:
        page = await store.messages.revisions(SPACE, thread, MessageId("m2"), limit=2, cursor=cursor)
        read += texts(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert read == ["0", "1", "2", "3", "4"]


async def test_the_revisions_of_an_unknown_message_are_not_found(store: Store) -> None:
    thread, other = await new_thread(store, SPACE), await new_thread(store, SPACE)
    run = await completed_run(store, thread, "hi", "there")
    (message, _) = await store.messages.of_run(SPACE, run.id)
    for space, where, name in (
        (SPACE, other, message.id),
        (SPACE, thread, MessageId("nobody")),
        (OTHER, thread, message.id),
    ):
        with pytest.raises(NotFound):
            await store.messages.revisions(space, where, name)
