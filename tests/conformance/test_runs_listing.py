"""Listing of runs, newest first."""

from typing import Any

import msgspec

from holdfast.domain.context import RECALL_VALUE, InjectedItem, InjectionKind, RecalledMemory
from holdfast.domain.errors import HoldfastError, Invalid, NotFound
from holdfast.domain.ids import MemoryId, RunId, SkillId, SpaceId, ThreadId
from holdfast.domain.instant import instant
from holdfast.domain.limits import Usage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.run_skills import SKILLS_VALUE, ActivationCause, ActiveSkill, RunSkills
from holdfast.domain.skill import SkillSource
from holdfast.domain.step import StepState
from holdfast.domain.thread import NewThread, ThreadPatch, ThreadStatus
from holdfast.ports.runs import RunFilter
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, assistant, new_thread
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import (
    claim_run,
    completed_run,
    create_run,
    ended_run,
    expect_refusal,
    wait_for_person,
)
from tests.conformance.run_builders import COMPLETED, child_of, commit, model_step, queued, running


async def _listed(store: Store, **where: Any) -> list[RunId]:
    return _ids((await store.runs.page(SPACE, where=RunFilter(**where))).items)


def _ids(runs: list[Run]) -> list[RunId]:
    return [run.id for run in runs]


async def _made(store: Store, count: int) -> list[RunId]:
    """Create runs and return their ids, newest first."""
    made = [await store.runs.create(SPACE, NewRun(thread=NewThread())) for _ in range(count)]
    return _ids([created.run for created in reversed(made)])


async def test_runs_are_listed_newest_first_whatever_their_ids(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    runs = [await ended_run(store, thread, id=RunId(id)) for id in ("m", "z", "a")]
    page = await store.runs.page(SPACE)
    assert (page.items, page.next_cursor) == ([runs[2], runs[1], runs[0]], None)


async def test_runs_of_deleted_threads_are_listed_only_if_the_filter_names_them(store: Store) -> None:
    kept, gone = await new_thread(store, SPACE), await new_thread(store, SPACE)
    runs = [await ended_run(store, thread) for thread in (gone, kept, gone, kept, gone)]
    await store.threads.update(SPACE, kept, ThreadPatch(status=ThreadStatus.ARCHIVED))
    await store.threads.update(SPACE, gone, ThreadPatch(status=ThreadStatus.DELETED))
    assert await _listed(store) == [runs[3].id, runs[1].id]
    assert await _listed(store, statuses=[RunStatus.CANCELLED]) == [runs[3].id, runs[1].id]
    first = await store.runs.page(SPACE, limit=1)
    second = await store.runs.page(SPACE, limit=1, cursor=first.next_cursor)
    assert (_ids([*first.items, *second.items]), second.next_cursor) == ([runs[3].id, runs[1].id], None)
    assert await _listed(store, thread_id=gone) == [runs[4].id, runs[2].id, runs[0].id]
    assert await store.runs.get(SPACE, runs[0].id) == runs[0]


async def test_pages_of_runs_join_to_the_whole_list(store: Store) -> None:
    made = await _made(store, 7)
    for limit in (1, 2, 3, 7, 8, 200):
        seen, cursor = list[RunId](), None
        while seen == [] or cursor is not None:
            page = await store.runs.page(SPACE, limit=limit, cursor=cursor)
            seen += _ids(page.items)
            cursor = page.next_cursor
            assert cursor is None or cursor == seen[-1]
        assert seen == made


async def test_a_page_goes_on_after_a_run_that_was_deleted_meanwhile(store: Store) -> None:
    made = await _made(store, 4)
    page = await store.runs.page(SPACE, limit=2)
    await store.runs.end(SPACE, made[1])
    await store.runs.delete(SPACE, made[1])
    assert _ids((await store.runs.page(SPACE, cursor=page.next_cursor)).items) == made[2:]


async def test_runs_created_while_paging_are_not_mixed_in(store: Store) -> None:
    made = await _made(store, 6)
    seen, cursor = list[RunId](), None
    while seen == [] or cursor is not None:
        page = await store.runs.page(SPACE, limit=2, cursor=cursor)
        seen += _ids(page.items)
        cursor = page.next_cursor
        await _made(store, 1)
        await store.runs.end(SPACE, made[len(seen) - 1])
    assert seen == made


async def test_a_deleted_run_is_not_listed(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    gone, base, last = (
        await ended_run(store, thread),
        await ended_run(store, thread, base=None),
        await ended_run(store, thread),
    )
    await store.runs.delete(SPACE, gone.id)
    await store.runs.delete(SPACE, base.id)
    assert await _listed(store) == [last.id]


async def test_get_many_leaves_out_deleted_runs_and_other_spaces(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    gone, kept = await ended_run(store, thread), await ended_run(store, thread, base=None)
    (live,) = await _made(store, 1)
    await store.runs.delete(SPACE, gone.id)
    names = [(SPACE, run) for run in (gone.id, kept.id, live, RunId("nobody"))]
    found = await store.runs.get_many([*names, *names, (OTHER, kept.id)])
    wanted = [await store.runs.get(SPACE, run) for run in (kept.id, live)]
    assert sorted(found, key=lambda run: run.id) == sorted(wanted, key=lambda run: run.id)
    assert await store.runs.get_many([]) == []


async def test_runs_of_another_space_are_not_listed(store: Store) -> None:
    await _made(store, 1)
    assert (await store.runs.page(OTHER)).items == []
    async with expect_refusal(store, NotFound):
        await store.runs.page(SpaceId("missing"))


async def test_a_list_of_runs_is_filtered_by_each_field_and_by_all_of_them(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    plain = (await ended_run(store, thread)).id
    odd = (await ended_run(store, thread, agent_type="coder", mode=Mode.TASK, tags=["red", "a b"])).id
    root = (await create_run(store, await new_thread(store, SPACE))).id
    new = NewRun(thread=NewThread(), parent_run_id=root, tags=["red"])
    child = (await store.runs.create(SPACE, new)).run.id
    new = NewRun(thread=NewThread(), parent_run_id=child)
    grandchild = (await store.runs.create(SPACE, new)).run.id
    cases: list[tuple[dict[str, Any], list[RunId]]] = [
        ({"thread_id": thread}, [odd, plain]),
        ({"agent_type": "coder"}, [odd]),
        ({"mode": Mode.TASK}, [odd]),
        ({"mode": Mode.DAEMON}, []),
        ({"tags": ["red"]}, [child, odd]),
        ({"tags": ["a b"]}, [odd]),
        ({"tags": ["re"]}, []),
        ({"root_run_id": root}, [grandchild, child, root]),
        ({"root_run_id": child}, []),
        ({"parent_run_id": root}, [child]),
        ({"parent_run_id": child}, [grandchild]),
        ({"thread_id": thread, "tags": ["red"]}, [odd]),
        ({"thread_id": thread, "parent_run_id": root}, []),
        ({"thread_id": ThreadId("missing")}, []),
        ({"root_run_id": RunId("missing")}, []),
    ]
    for where, found in cases:
        assert await _listed(store, **where) == found


async def test_a_list_of_runs_is_filtered_by_status(store: Store) -> None:
    done = await completed_run(store, await new_thread(store, SPACE), "x", "y")
    cancelled = await ended_run(store, await new_thread(store, SPACE), "x")
    waiting = await wait_for_person(store, await create_run(store, await new_thread(store, SPACE)), "really?")
    running = (await claim_run(store, await create_run(store, await new_thread(store, SPACE)))).run
    queued = await create_run(store, await new_thread(store, SPACE))
    pending = await create_run(store, queued.thread_id)
    for status, run in [
        (RunStatus.COMPLETED, done),
        (RunStatus.CANCELLED, cancelled),
        (RunStatus.WAITING, waiting),
        (RunStatus.RUNNING, running),
        (RunStatus.QUEUED, queued),
        (RunStatus.PENDING, pending),
    ]:
        assert await _listed(store, statuses=[status]) == [run.id]
    assert await _listed(store, statuses=[RunStatus.FAILED]) == []
    assert await _listed(store, statuses=[RunStatus.COMPLETED, RunStatus.QUEUED]) == [queued.id, done.id]


async def test_a_list_of_runs_is_filtered_by_the_time_of_creation(store: Store, clock: HeldClock) -> None:
    times, runs = [], []
    for _ in range(7):
        times.append(instant(clock.now()))
        runs += await _made(store, 1)
        clock.tick(20 * MINUTE)
    for first, last in [(0, 7), (2, 5), (6, 7), (3, 3)]:
        found = await _listed(store, created_from=times[first], created_to=times[last] if last < 7 else None)
        assert found == [*reversed(runs[first:last])]
    assert await _listed(store, created_to=times[0]) == []
    page = await store.runs.page(SPACE, where=RunFilter(created_from=times[1], created_to=times[4]), limit=2)
    rest = await store.runs.page(
        SPACE, where=RunFilter(created_from=times[1], created_to=times[4]), limit=2, cursor=page.next_cursor
    )
    assert [*_ids(page.items), *_ids(rest.items)] == [*reversed(runs[1:4])]


async def _using(store: Store, *memories: str, skill: str | None = None) -> Run:
    """Return a run that ended with these memories in its prompt and this skill active."""
    lease = await running(store, "begin")
    named: dict[str, Any] = {"source": SkillSource.SPACE, "version": 1, "digest": "", "cause": ActivationCause.NAMED}
    active = ActiveSkill(id=SkillId("skl_1"), name=skill or "", **named)
    recalled = RecalledMemory(items=[InjectedItem(kind=InjectionKind.MEMORY, id=each) for each in memories])
    values = {RECALL_VALUE: msgspec.to_builtins(recalled)}
    if skill is not None:
        values[SKILLS_VALUE] = msgspec.to_builtins(RunSkills(run_id=lease.run_id, locale="en", active=[active]))
    await commit(store, lease, values=values)
    await commit(store, lease, values=values, move=COMPLETED)
    return lease.run


async def test_the_runs_that_used_a_memory_or_a_skill_are_listed(store: Store) -> None:
    first = (await _using(store, "mem_1", "mem_2", skill="tidy")).id
    await ended_run(store, await new_thread(store, SPACE))
    second = (await _using(store, "mem_1")).id
    assert await _listed(store, memory_id="mem_1") == [second, first]
    assert await _listed(store, memory_id="mem_2") == [first]
    assert await _listed(store, memory_id="mem_2", skill="tidy") == [first]
    assert await _listed(store, memory_id="tidy") == await _listed(store, skill="mem_1") == []
    page = await store.runs.page(SPACE, where=RunFilter(memory_id=MemoryId("mem_1")), limit=1)
    assert (_ids(page.items), page.next_cursor) == ([second], second)
    assert (await store.runs.page(OTHER, where=RunFilter(memory_id=MemoryId("mem_1")))).items == []
    await store.runs.delete(SPACE, first)
    assert await _listed(store, skill="tidy") == []


async def test_a_run_with_several_tags_is_found_by_all_of_them(store: Store) -> None:
    both = await ended_run(store, await new_thread(store, SPACE), tags=["a", "b"])
    await ended_run(store, await new_thread(store, SPACE), tags=["a"])
    assert await _listed(store, tags=["b", "a"]) == [both.id]
    assert await _listed(store, tags=["a", "c"]) == []


async def test_a_list_of_runs_is_filtered_by_the_model_that_was_requested_or_used(store: Store) -> None:
    asked = await queued(store, "x", model="small")
    used = await claim_run(store, await create_run(store, await new_thread(store, SPACE)))
    done = model_step(1, StepState.DONE)
    await commit(store, used, steps=[done], messages=[assistant("x")])
    assert await _listed(store, model="small") == [asked.id]
    assert await _listed(store, model="model") == [used.run_id]
    assert await _listed(store, model="large") == []


async def test_the_usage_of_a_tree_includes_all_descendants(store: Store) -> None:
    root = await queued(store, "x")
    child = await child_of(store, root.id)
    leaf = await child_of(store, child.id)
    for run, cost in ((root, 1.0), (child, 0.25), (leaf, 0.5)):
        lease = await claim_run(store, run)
        await commit(store, lease, usage=Usage(input_tokens=10, output_tokens=1, cost_usd=cost))
    usage = await store.runs.tree_usage(SPACE, [root.id, child.id, leaf.id, RunId("none")])
    assert {run: (each.input_tokens, each.cost_usd) for run, each in usage.items()} == {
        root.id: (30, 1.75),
        child.id: (20, 0.75),
        leaf.id: (10, 0.5),
    }
    assert await store.runs.tree_usage(OTHER, [root.id]) == {}
    unpriced = await claim_run(store, await child_of(store, leaf.id))
    await commit(store, unpriced, usage=Usage(input_tokens=1, cost_usd=None))
    assert (await store.runs.tree_usage(SPACE, [root.id]))[root.id] == Usage(
        input_tokens=31, output_tokens=3, cost_usd=None
    )


async def test_a_filter_does_not_reach_into_another_space(store: Store) -> None:
    foreign = (await store.runs.create(OTHER, NewRun(thread=NewThread(id=ThreadId("same")), tags=["red"]))).run
    for where in ({"thread_id": foreign.thread_id}, {"root_run_id": foreign.id}, {"tags": ["red"]}):
        assert await _listed(store, **where) == []


async def test_tags_are_found_whatever_is_in_them(store: Store) -> None:
    tags = ['"', "\\", "'; --", "%", "ünï", "日本", "a,b", "[]", " "]
    thread = await new_thread(store, SPACE)
    run = await ended_run(store, thread, tags=tags)
    assert run.tags == tags
    for tag in tags:
        assert await _listed(store, tags=[tag]) == [run.id]
    assert await _listed(store, tags=[""]) == []


async def test_a_filtered_list_of_runs_is_paged_too(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    odd = [(await ended_run(store, thread, tags=["odd"] if number % 2 else [])).id for number in range(6)][1::2]
    first = await store.runs.page(SPACE, where=RunFilter(tags=["odd"]), limit=2)
    last = await store.runs.page(SPACE, where=RunFilter(tags=["odd"]), limit=2, cursor=first.next_cursor)
    assert [*_ids(first.items), *_ids(last.items)] == [*reversed(odd)]
    assert last.next_cursor is None


async def test_a_page_of_runs_has_1_to_200(store: Store) -> None:
    await store.runs.page(SPACE, limit=200)
    for limit in (0, -1, 201, 2**70):
        async with expect_refusal(store, Invalid):
            await store.runs.page(SPACE, limit=limit)


async def test_a_cursor_that_is_not_a_run_of_the_space_is_refused(store: Store) -> None:
    foreign = (await store.runs.create(OTHER, NewRun(thread=NewThread()))).run
    for cursor in (foreign.id, "missing", "", "1", "\x00", "\ud800"):
        async with expect_refusal(store, NotFound, Invalid):
            await store.runs.page(SPACE, cursor=cursor)


async def test_a_filter_that_no_run_can_match_is_refused_or_finds_nothing(store: Store) -> None:
    await _made(store, 1)
    for text in ("\x00", "\ud800"):
        for field in ("thread_id", "agent_type", "tags", "model", "root_run_id", "parent_run_id"):
            try:
                assert await _listed(store, **{field: [text] if field == "tags" else text}) == []
            except HoldfastError as error:
                assert isinstance(error, Invalid)


async def test_the_newest_run_of_each_thread_is_found_at_once(store: Store) -> None:
    first, second, empty = [await new_thread(store, SPACE) for _ in range(3)]
    await ended_run(store, first)
    newest = {(await ended_run(store, thread)).id for thread in (first, second)}
    found = await store.runs.newest_of_threads(
        [(SPACE, each) for each in (first, second, empty, ThreadId("none"), first)]
    )
    assert {run.id for run in found} == newest
    assert len(found) == 2


async def test_a_deleted_run_is_not_the_newest_of_its_thread(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    kept, gone = await ended_run(store, thread), await ended_run(store, thread)
    await store.runs.delete(SPACE, gone.id)
    assert [run.id for run in await store.runs.newest_of_threads([(SPACE, thread)])] == [kept.id]
    assert await store.runs.newest_of_threads([(OTHER, thread)]) == []
