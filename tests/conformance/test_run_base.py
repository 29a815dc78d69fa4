"""The base of a run, and when the run may start."""

import asyncio

from holdfast.domain.commit import Commit
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.message import FAILED_METADATA_KEY, Role
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Run, RunStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, new_thread, result
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
    status,
)


async def test_the_first_run_of_a_thread_has_no_base(store: Store) -> None:
    run = await create_run(store, await new_thread(store, SPACE), "hello")
    assert (run.base_run_id, run.base_sequence, run.status) == (None, None, RunStatus.QUEUED)


async def test_a_run_continues_the_newest_run_of_its_thread(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "hello", "hi")
    await completed_run(store, thread, "left", "l")
    right = await completed_run(store, thread, "right", "r", base=base_on(root))
    await ended_run(store, await new_thread(store, SPACE), "elsewhere")
    run = await create_run(store, thread, "and")
    assert (run.base_run_id, run.base_sequence, run.status) == (right.id, None, RunStatus.QUEUED)
    assert await history_texts(store, run) == ["hello", "hi", "right", "r", "and"]


async def test_a_run_with_a_null_base_starts_a_new_root(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await completed_run(store, thread, "hello", "hi")
    live = await create_run(store, thread, "still here")
    run = await create_run(store, thread, "afresh", base=None)
    assert (run.base_run_id, run.status) == (None, RunStatus.QUEUED)
    assert await history_texts(store, run) == ["afresh"]
    assert await status(store, live) is RunStatus.QUEUED


async def test_an_explicit_base_is_taken_as_it_is(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await completed_run(store, thread, "one", "1")
    await completed_run(store, thread, "two", "2")
    run = await create_run(store, thread, "three", base=base_on(first))
    assert (run.base_run_id, run.status) == (first.id, RunStatus.QUEUED)
    assert await history_texts(store, run) == ["one", "1", "three"]


async def test_a_base_on_another_thread_is_not_found(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    elsewhere = await ended_run(store, await new_thread(store, SPACE), "hello")
    foreign = (await store.runs.create(OTHER, NewRun(thread=await new_thread(store, OTHER)))).run
    gone = await ended_run(store, thread, "gone")
    await store.runs.delete(SPACE, gone.id)
    for missing in (elsewhere.id, foreign.id, gone.id, RunId("missing")):
        async with expect_refusal(store, NotFound):
            await create_run(store, thread, "and", base=RunBase(run_id=missing))


async def test_an_erased_base_is_not_found_and_its_dependants_continue(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    erased = await ended_run(store, thread, "erased")
    after = await ended_run(store, thread, "after")
    await store.runs.delete(SPACE, erased.id)
    async with expect_refusal(store, NotFound):
        await create_run(store, thread, "and", base=base_on(erased))
    run = await create_run(store, thread, "and")
    assert run.base_run_id == after.id
    assert await history_texts(store, run) == ["after", "and"]


async def test_a_run_may_start_after_a_message_of_its_base(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await completed_run(store, thread, "one", "two", "three", "four")
    for cut, heard in enumerate([["one"], ["one", "two"], ["one", "two", "three"]]):
        run = await ended_run(store, thread, "and", base=base_on(base, cut))
        assert (run.base_run_id, run.base_sequence) == (base.id, cut)
        assert await history_texts(store, run) == [*heard, "and"]


async def test_a_base_sequence_of_another_run_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await completed_run(store, thread, "one", "1")
    second = await completed_run(store, thread, "two", "2")
    for base, sequence in [(first, 2), (second, 0), (first, 4), (first, -1), (second, 2**70)]:
        async with expect_refusal(store, Invalid):
            await create_run(store, thread, "and", base=base_on(base, sequence))


async def _called(store: Store, thread: ThreadId) -> Run:
    """Return a completed run with the messages: user, two calls, their results, answer."""
    lease = await claim_run(store, await create_run(store, thread, "look"))
    said = [assistant("looking", call("a"), call("b")), result("a"), result("b"), assistant("seen")]
    await store.journal.commit(Commit(lease=lease, messages=said))
    return await complete(store, lease)


async def _results(store: Store, run: Run) -> list[tuple[str | None, bool]]:
    """Return the calls that the results in a run's own messages answer, and whether each failed."""
    own = await store.messages.of_run(SPACE, run.id)
    return [(each.tool_call_id, FAILED_METADATA_KEY in each.metadata) for each in own if each.role is Role.TOOL]


async def test_calls_whose_results_are_beyond_the_base_sequence_settle_as_not_run(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await _called(store, thread)
    for cut, not_run in ((0, []), (1, ["a", "b"]), (2, ["b"]), (3, []), (4, [])):
        run = await ended_run(store, thread, "and", base=base_on(base, cut))
        assert await _results(store, run) == [(each, True) for each in not_run]
        history = await store.messages.history(SPACE, run.id)
        assert [message.sequence for message in history[: cut + 1]] == list(range(cut + 1))
        assert [message.role for message in history[cut + 1 :]] == [*[Role.TOOL] * len(not_run), Role.USER]
        assert all("not run" in str(message.content) for message in history[cut + 1 : -1])


async def test_a_fork_between_calls_that_were_not_run_settles_the_others(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    fork = await ended_run(store, thread, "and", base=base_on(await _called(store, thread), 1))
    (first, *_) = await store.messages.of_run(SPACE, fork.id)
    again = await ended_run(store, thread, "or", base=base_on(fork, first.sequence))
    assert await _results(store, again) == [("b", True)]


async def test_a_fork_of_an_active_run_settles_its_calls_when_that_run_ends(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "look"))
    await store.journal.commit(Commit(lease=lease, messages=[assistant("", call("a"))]))
    fork = await create_run(store, thread, "and", base=base_on(lease.run, 1))
    assert fork.status is RunStatus.PENDING
    await store.journal.commit(Commit(lease=lease, messages=[result("a")]))
    await complete(store, lease, "seen")
    opening = await store.journal.open(await claim_run(store, fork))
    assert [message.role for message in opening.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert await _results(store, fork) == [("a", True)]


async def test_a_run_is_pending_until_its_base_has_ended(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    base = await create_run(store, thread, "one")
    run = await create_run(store, thread, "two", base=base_on(base))
    assert (run.status, run.queued_at) == (RunStatus.PENDING, None)
    lease = await claim_run(store, base)
    assert await store.leases.claim(SECOND, lease=MINUTE) == []
    clock.tick(MINUTE / 2)
    await complete(store, lease, "1")
    queued = await store.runs.get(SPACE, run.id)
    assert (queued.status, queued.created_at) == (RunStatus.QUEUED, run.created_at)
    assert queued.queued_at is not None and queued.queued_at > run.created_at
    assert (await claim_run(store, run)).run_id == run.id


async def test_a_run_created_while_its_base_ends_does_not_wait_forever(store: Store) -> None:
    for _ in range(10):
        thread = await new_thread(store, SPACE)
        lease = await claim_run(store, await create_run(store, thread, "one"))
        _, *runs = await asyncio.gather(
            complete(store, lease, "1"), *(create_run(store, thread, "next", base=base_on(lease.run)) for _ in range(3))
        )
        assert [await status(store, run) for run in runs] == [RunStatus.QUEUED] * 3
        for run in runs:
            assert await history_texts(store, run) == ["one", "1", "next"]
            await store.runs.end(SPACE, run.id)


async def test_a_run_on_an_ended_base_is_pending_until_the_worker_has_stopped(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "one"))
    (base,) = await store.runs.end(SPACE, lease.run_id)
    run = await create_run(store, thread, "two")
    assert (run.base_run_id, run.status) == (base.id, RunStatus.PENDING)
    await store.leases.release(lease)
    assert await status(store, run) is RunStatus.QUEUED
    assert await history_texts(store, run) == ["one", "two"]


async def test_a_run_on_an_ended_base_goes_on_when_its_dead_worker_has_expired(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "one"))
    await store.runs.end(SPACE, lease.run_id)
    run = await create_run(store, thread, "two")
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    assert await status(store, run) is RunStatus.QUEUED


async def test_input_has_no_sequence_before_the_base_has_ended(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await create_run(store, thread, "one")
    run = await create_run(store, thread, "two", "three")
    assert sequences(await store.messages.of_run(SPACE, run.id)) == [None, None]
    await complete(store, await claim_run(store, base), "1", "2")
    assert sequences(await store.messages.of_run(SPACE, run.id)) == [3, 4]
    assert (await store.threads.get(SPACE, thread)).next_sequence == 5


async def test_many_runs_on_one_base_are_queued_together_when_it_ends(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await create_run(store, thread, "one")
    runs = [await create_run(store, thread, f"two {number}", base=base_on(base)) for number in range(5)]
    await complete(store, await claim_run(store, base), "1")
    assert [sequences(await store.messages.of_run(SPACE, run.id)) for run in runs] == [[2], [3], [4], [5], [6]]
    assert len(await store.leases.claim(FIRST, lease=MINUTE, limit=10)) == 5


async def test_a_run_on_a_base_cancelled_before_it_started_waits_for_the_bases_base(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first, second, third = [await create_run(store, thread, text) for text in ("one", "two", "three")]
    await store.runs.end(SPACE, second.id)
    assert await status(store, third) is RunStatus.PENDING
    late = await create_run(store, thread, "late", base=base_on(second))
    assert late.status is RunStatus.PENDING
    await complete(store, await claim_run(store, first), "1", state={"from": "first"})
    for run, text in [(third, "three"), (late, "late")]:
        assert await status(store, run) is RunStatus.QUEUED
        history = await store.messages.history(SPACE, run.id)
        assert [message.content for message in history] == ["one", "1", "two", text]
        assert sequences(history) == sorted(sequences(history), key=lambda sequence: sequence or 0)
        assert await store.values.of_run(SPACE, run.id) == {"state": {"from": "first"}}


async def test_a_run_on_several_cancelled_bases_waits_for_the_worker_of_the_first(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    runs = [await create_run(store, thread, text) for text in ("one", "two", "three", "four")]
    lease = await claim_run(store, runs[0])
    for run in (runs[1], runs[0], runs[2]):
        await store.runs.end(SPACE, run.id)
    fifth = await create_run(store, thread, "five", base=base_on(runs[2]))
    assert [await status(store, run) for run in (runs[3], fifth)] == [RunStatus.PENDING] * 2
    await store.leases.release(lease)
    assert [await status(store, run) for run in (runs[3], fifth)] == [RunStatus.QUEUED] * 2
    assert await history_texts(store, runs[3]) == ["one", "two", "three", "four"]
    assert await history_texts(store, fifth) == ["one", "two", "three", "five"]


async def test_a_run_continues_the_last_active_run_if_the_newest_was_cancelled_before_it_started(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await create_run(store, thread, "one")
    second = await create_run(store, thread, "two")
    await store.runs.end(SPACE, second.id)
    third = await create_run(store, thread, "three")
    assert (third.base_run_id, third.status) == (first.id, RunStatus.PENDING)
