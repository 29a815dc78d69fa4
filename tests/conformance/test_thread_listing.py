"""Listing of threads, by their latest run."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from holdfast.domain.content import TextPart
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.page import MAX_PAGE_CHARS
from holdfast.domain.permission import RIGHTS_VALUE, Rights
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, Thread, ThreadFilter, ThreadPatch, ThreadStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import ended_run, expect_refusal

SECOND = timedelta(seconds=1)


async def _made(store: Store, *titles: str, clock: HeldClock | None = None) -> dict[str, ThreadId]:
    """Create threads one after the other; with a `clock`, a second apart."""
    made = {}
    for title in titles:
        made[title] = (await store.threads.create(SPACE, NewThread(title=title))).id
        if clock is not None:
            clock.tick(SECOND)
    return made


async def _listed(store: Store, where: ThreadFilter | None = None) -> list[str | None]:
    return _titles((await store.threads.page(SPACE, where=where)).items)


def _titles(threads: Iterable[Thread]) -> list[str | None]:
    return [thread.title for thread in threads]


async def test_the_thread_with_the_latest_run_comes_first(store: Store, clock: HeldClock) -> None:
    made = await _made(store, "a", "b", "c", clock=clock)
    for title in "cab":
        await ended_run(store, made[title])
        clock.tick(SECOND)
    assert await _listed(store) == ["b", "a", "c"]
    await ended_run(store, made["c"])
    assert await _listed(store) == ["c", "b", "a"]


async def test_a_thread_without_a_run_is_listed_by_its_creation_time(store: Store, clock: HeldClock) -> None:
    made = await _made(store, "a", "b", clock=clock)
    await ended_run(store, made["a"])
    clock.tick(SECOND)
    await _made(store, "c")
    assert await _listed(store) == ["c", "a", "b"]


async def test_threads_of_the_same_time_are_listed_newest_first(store: Store) -> None:
    await _made(store, "a", "b", "c")
    assert await _listed(store) == ["c", "b", "a"]


async def test_an_update_does_not_move_a_thread_in_the_list(store: Store, clock: HeldClock) -> None:
    made = await _made(store, "a", "b", clock=clock)
    await store.threads.update(SPACE, made["a"], ThreadPatch(summary="x"))
    assert await _listed(store) == ["b", "a"]


async def test_threads_of_another_space_are_not_listed(store: Store) -> None:
    await _made(store, "a")
    assert (await store.threads.page(OTHER)).items == []


@pytest.mark.parametrize("same_moment", [True, False])
async def test_pages_join_to_the_whole_list(store: Store, clock: HeldClock, same_moment: bool) -> None:
    await _made(store, *"abcdefg", clock=None if same_moment else clock)
    for limit in (1, 2, 3, 7, 8, 200):
        seen, cursor = list[str | None](), None
        while seen == [] or cursor is not None:
            page = await store.threads.page(SPACE, limit=limit, cursor=cursor)
            seen += _titles(page.items)
            cursor = page.next_cursor
            assert len(page.items) == limit or cursor is None
        assert seen == list("gfedcba")


async def test_a_page_has_fewer_threads_when_they_are_long(store: Store) -> None:
    metadata = {"text": "x" * (MAX_PAGE_CHARS * 2 // 5)}
    made = [(await store.threads.create(SPACE, NewThread(metadata=metadata))).id for _ in range(3)]
    made.append((await store.threads.create(SPACE, NewThread(metadata={"text": "x" * MAX_PAGE_CHARS}))).id)
    first = await store.threads.page(SPACE)
    second = await store.threads.page(SPACE, cursor=first.next_cursor)
    third = await store.threads.page(SPACE, cursor=second.next_cursor)
    pages = [[thread.id for thread in page.items] for page in (first, second, third)]
    assert pages == [made[3:], [made[2], made[1]], made[:1]]
    assert third.next_cursor is None


@pytest.mark.parametrize("same_moment", [True, False])
async def test_no_thread_is_shown_twice_or_left_out_while_others_are_added_and_moved(
    store: Store, clock: HeldClock, same_moment: bool
) -> None:
    made = await _made(store, *"abcdefghij", clock=None if same_moment else clock)
    moved = iter("djaj")
    seen, cursor = list[str | None](), None
    while seen == [] or cursor is not None:
        page = await store.threads.page(SPACE, limit=3, cursor=cursor)
        seen += _titles(page.items)
        cursor = page.next_cursor
        if not same_moment:
            clock.tick(SECOND)
        await _made(store, f"new after {len(seen)}")
        await ended_run(store, made[next(moved)])
    assert len(seen) == len(set(seen))
    assert set("bcefghi") <= set(seen)
    stayed = [title for title in seen if title in set("bcefghi")]
    assert stayed == sorted(stayed, key=str, reverse=True)


async def test_a_cursor_stays_valid_after_its_thread_is_deleted(store: Store) -> None:
    made = await _made(store, *"abcd")
    page = await store.threads.page(SPACE, limit=2)
    await store.threads.update(SPACE, made["c"], ThreadPatch(status=ThreadStatus.DELETED))
    assert _titles((await store.threads.page(SPACE, limit=2, cursor=page.next_cursor)).items) == ["b", "a"]


async def test_a_list_is_filtered_by_status_and_hides_deleted_threads_by_default(store: Store) -> None:
    made = await _made(store, "active", "archived", "deleted")
    for status in (ThreadStatus.ARCHIVED, ThreadStatus.DELETED):
        await store.threads.update(SPACE, made[status], ThreadPatch(status=status))
    assert await _listed(store) == ["archived", "active"]
    for status in ThreadStatus:
        assert await _listed(store, ThreadFilter(status=status)) == [status]


async def test_a_list_is_filtered_by_agent_type(store: Store) -> None:
    for agent in ("writer", "coder"):
        await store.threads.create(SPACE, NewThread(title=agent, agent_type=agent))
    assert await _listed(store, ThreadFilter(agent_type="coder")) == ["coder"]
    assert await _listed(store, ThreadFilter(agent_type="Coder")) == []
    assert await _listed(store, ThreadFilter(agent_type="coder", title="writer")) == []


async def test_a_list_is_filtered_by_a_part_of_the_title_whatever_its_case(store: Store) -> None:
    made = "planning", "The PLAN", "Große Ärgernisse", "ОТЧЁТ за май", "ο λόγος", "旅行の計画"
    await _made(store, *made, "100% sure", "snake_case", "back\\slash", "it's")
    await store.threads.create(SPACE, NewThread(title=None))
    for part, titles in [
        ("plan", ["The PLAN", "planning"]),
        ("PLAN", ["The PLAN", "planning"]),
        ("ÄRGER", ["Große Ärgernisse"]),
        ("ärger", ["Große Ärgernisse"]),
        ("отчёт", ["ОТЧЁТ за май"]),
        ("ΛΌΓΟ", ["ο λόγος"]),
        ("計画", ["旅行の計画"]),
        ("%", ["100% sure"]),
        ("_", ["snake_case"]),
        ("\\", ["back\\slash"]),
        ("'", ["it's"]),
        ("GROSSE", ["Große Ärgernisse"]),
        ("plan the", []),
    ]:
        assert await _listed(store, ThreadFilter(title=part)) == titles


async def test_a_title_that_was_changed_is_found_as_it_is_now(store: Store) -> None:
    made = await _made(store, "Before")
    await store.threads.update(SPACE, made["Before"], ThreadPatch(title="After"))
    assert await _listed(store, ThreadFilter(title="before")) == []
    await store.threads.update(SPACE, made["Before"], ThreadPatch(summary="x"))
    assert await _listed(store, ThreadFilter(title="after")) == ["After"]


async def test_a_filtered_list_is_paged_too(store: Store) -> None:
    await _made(store, "x1", "y1", "x2", "y2", "x3")
    first = await store.threads.page(SPACE, where=ThreadFilter(title="X"), limit=2)
    last = await store.threads.page(SPACE, where=ThreadFilter(title="X"), limit=2, cursor=first.next_cursor)
    assert [*_titles(first.items), *_titles(last.items)] == ["x3", "x2", "x1"]
    assert last.next_cursor is None


async def test_a_page_of_threads_has_1_to_200(store: Store) -> None:
    await store.threads.page(SPACE, limit=200)
    for limit in (0, -1, 201, 2**70):
        async with expect_refusal(store, Invalid):
            await store.threads.page(SPACE, limit=limit)


async def test_an_invalid_cursor_is_refused_by_threads(store: Store) -> None:
    for cursor in ("", "x", "1", "1.2.3", "-1.2", "1.", f"{'1' * 19}.1", "\x00.1", "\ud800.1", "٣.1"):
        async with expect_refusal(store, Invalid):
            await store.threads.page(SPACE, cursor=cursor)


async def test_a_filter_that_no_thread_can_match_is_refused(store: Store) -> None:
    for text in ("\x00", "\ud800"):
        for where in (ThreadFilter(title=text), ThreadFilter(agent_type=text)):
            async with expect_refusal(store, Invalid):
                await store.threads.page(SPACE, where=where)


async def test_threads_of_child_runs_are_left_out_unless_requested(store: Store) -> None:
    parent = (await store.runs.create(SPACE, NewRun(thread=NewThread(title="parent")))).run
    child = NewRun(thread=NewThread(title="child"), parent_run_id=parent.id)
    child_run = (await store.runs.create(SPACE, child)).run
    assert await _listed(store) == ["parent"]
    assert await _listed(store, ThreadFilter(title="c")) == []
    assert set(await _listed(store, ThreadFilter(children=True))) == {"parent", "child"}
    await store.runs.end(SPACE, parent.id, to=RunStatus.CANCELLED, reason="over")
    await store.runs.delete(SPACE, child_run.root_run_id)
    assert await _listed(store) == []


async def test_threads_of_independent_tasks_are_left_out_too(store: Store) -> None:
    rights = msgspec.to_builtins([Rights(agent="parent")])
    await store.runs.create(SPACE, NewRun(thread=NewThread(title="task"), values={RIGHTS_VALUE: rights}))
    assert await _listed(store) == []
    assert await _listed(store, ThreadFilter(children=True)) == ["task"]


async def test_a_run_of_a_sub_agent_on_an_existing_thread_does_not_hide_it(store: Store) -> None:
    parent = (await store.runs.create(SPACE, NewRun(thread=NewThread(title="parent")))).run
    made = await _made(store, "other")
    await store.runs.create(SPACE, NewRun(thread=made["other"], parent_run_id=parent.id))
    assert set(await _listed(store)) == {"parent", "other"}


FIRST_MESSAGES: Final = {
    "a line": ([user("Tea?\nOr coffee?")], "Tea?"),
    "the first of the user": ([NewMessage(role=Role.SYSTEM, content="be kind"), user("a"), user("b")], "a"),
    "parts": ([NewMessage(role=Role.USER, content=[TextPart(text="Se"), TextPart(text="e")])], "See"),
    "a long line": ([user("x" * 500)], "x" * 79 + "…"),
    "no text": ([user(" \n")], None),
    "nothing": ([], None),
}


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "new"])
@pytest.mark.parametrize(("messages", "title"), FIRST_MESSAGES.values(), ids=list(FIRST_MESSAGES))
async def test_the_first_run_gives_a_thread_its_title(
    store: Store, messages: list[NewMessage], title: str | None, existing: bool
) -> None:
    thread = (await store.threads.create(SPACE, NewThread())).id if existing else NewThread()
    run = (await store.runs.create(SPACE, NewRun(thread=thread, messages=messages))).run
    assert (await store.threads.get(SPACE, run.thread_id)).title == title
    assert await _listed(store, ThreadFilter(title=(title or "null").upper())) == ([title] if title else [])


async def test_only_the_first_run_gives_a_title_and_only_if_there_is_none(store: Store) -> None:
    titled = (await store.threads.create(SPACE, NewThread(title="mine"))).id
    await ended_run(store, titled, "yours")
    assert (await store.threads.get(SPACE, titled)).title == "mine"
    await store.threads.update(SPACE, titled, ThreadPatch(title=None))
    await ended_run(store, titled, "again")
    assert (await store.threads.get(SPACE, titled)).title is None
