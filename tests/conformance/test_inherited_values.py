"""Inherited values: a run starts with the values its base had at the base sequence."""

from holdfast.domain.commit import Commit
from holdfast.domain.content import Json
from holdfast.domain.ids import ThreadId
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Run, RunStatus
from holdfast.store.store import Store
from tests.builders import assistant, new_thread
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import base_on, claim_run, complete, completed_run, create_run, ended_run, status


async def _values(store: Store, run: Run) -> dict[str, Json]:
    return await store.values.of_run(SPACE, run.id)


async def _storied(store: Store, thread: ThreadId) -> Run:
    """Create a run whose `state` is the last message: message 0 is the input, 1, 2 and 3 are replies."""
    lease = await claim_run(store, await create_run(store, thread, "0", base=None, values={"state": "given"}))
    for number in (1, 2):
        said = [assistant(str(number))]
        await store.journal.commit(Commit(lease=lease, messages=said, values={"state": number}))
    return await complete(store, lease, "3", state=3, plan=["p"])


async def test_a_root_run_has_only_the_values_of_its_request(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    assert await _values(store, await ended_run(store, thread, "hello")) == {}
    given = {"state": {"a": [1, None]}, "plan": None, "todo": "x", "compaction": 0}
    assert await _values(store, await create_run(store, thread, base=None, values=given)) == given


async def test_a_run_has_the_value_that_was_written_last(store: Store) -> None:
    lease = await claim_run(store, await create_run(store, await new_thread(store, SPACE), "hello"))
    for number in range(3):
        await store.journal.commit(Commit(lease=lease, values={"state": number, "todo": [number]}))
    await store.journal.commit(Commit(lease=lease, messages=[assistant("x")], values={"state": None}))
    assert await _values(store, await complete(store, lease)) == {"state": None, "todo": [2]}


async def test_a_run_starts_with_the_values_of_its_base(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await _storied(store, thread)
    run = await create_run(store, thread, "next")
    assert await _values(store, run) == await _values(store, base) == {"state": 3, "plan": ["p"]}


async def test_values_are_inherited_through_runs_that_wrote_none(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await _storied(store, thread)
    for _ in range(4):
        await ended_run(store, thread, "more")
    assert await _values(store, await ended_run(store, thread, "more")) == {"state": 3, "plan": ["p"]}


async def test_values_of_a_run_are_not_visible_in_its_base_or_other_branches(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await _storied(store, thread)
    left = await complete(
        store, await claim_run(store, await create_run(store, thread, "l", base=base_on(base))), state="left"
    )
    right = await complete(
        store, await claim_run(store, await create_run(store, thread, "r", base=base_on(base))), todo="right"
    )
    assert await _values(store, base) == {"state": 3, "plan": ["p"]}
    assert await _values(store, left) == {"state": "left", "plan": ["p"]}
    assert await _values(store, right) == {"state": 3, "plan": ["p"], "todo": "right"}


async def test_a_run_on_a_base_sequence_has_the_values_as_of_that_message(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await _storied(store, thread)
    for cut, values in [(0, {"state": "given"}), (1, {"state": 1}), (2, {"state": 2})]:
        run = await ended_run(store, thread, "instead", base=base_on(base, cut))
        assert await _values(store, run) == values
        assert await _values(store, await ended_run(store, thread, base=base_on(run))) == values
    assert await _values(store, await ended_run(store, thread, base=base_on(base, 3))) == {"state": 3, "plan": ["p"]}


async def test_a_base_sequence_before_a_write_shows_the_bases_initial_value(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await _storied(store, thread)
    lease = await claim_run(store, await create_run(store, thread, "4", base=base_on(base)))
    run = await complete(store, lease, "5", state=5)
    assert await _values(store, await ended_run(store, thread, base=base_on(run, 4))) == {"state": 3, "plan": ["p"]}
    assert await _values(store, await ended_run(store, thread, base=base_on(run, 5))) == {"state": 5, "plan": ["p"]}


async def test_a_value_written_without_a_message_counts_from_the_last_message_of_its_run(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "0"))
    await store.journal.commit(Commit(lease=lease, messages=[assistant("1")]))
    await completed_run(store, thread, "2", "3", base=None)  # another branch has the thread's last messages
    await store.journal.commit(Commit(lease=lease, values={"state": "quiet"}))
    run = await complete(store, lease, "4", state="loud")
    assert await _values(store, await ended_run(store, thread, base=base_on(run, 0))) == {}
    assert await _values(store, await ended_run(store, thread, base=base_on(run, 1))) == {"state": "quiet"}
    assert await _values(store, await ended_run(store, thread, base=base_on(run, 4))) == {"state": "loud"}


async def test_requested_values_take_precedence_over_inherited_ones(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await _storied(store, thread)
    assert await _values(store, await create_run(store, thread, values={"state": "own"})) == {
        "state": "own",
        "plan": ["p"],
    }


async def test_a_pending_run_shows_its_bases_current_values_and_starts_with_the_final_ones(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "0", values={"plan": "old"}))
    run = await create_run(store, thread, "1", values={"state": "own"})
    behind = await create_run(store, thread, "2", values={"compaction": "c"})
    assert await _values(store, run) == {"plan": "old", "state": "own"}
    await store.journal.commit(Commit(lease=lease, values={"plan": "new", "state": "base", "todo": 1}))
    assert await _values(store, run) == {"plan": "new", "state": "own", "todo": 1}
    assert await _values(store, behind) == {"plan": "new", "state": "own", "todo": 1, "compaction": "c"}
    await complete(store, lease, state="last", todo=2)
    assert await status(store, run) is RunStatus.QUEUED
    assert await _values(store, run) == {"plan": "new", "state": "own", "todo": 2}
    assert await _values(store, behind) == {"plan": "new", "state": "own", "todo": 2, "compaction": "c"}


async def test_a_pending_run_on_a_base_sequence_has_the_values_as_of_that_message(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "0", values={"state": "given"}))
    await store.journal.commit(Commit(lease=lease, messages=[assistant("1")], values={"state": 1}))
    run = await create_run(store, thread, "instead", base=base_on(lease.run, 0))
    assert await _values(store, run) == {"state": "given"}
    await complete(store, lease, state=2)
    assert await _values(store, run) == {"state": "given"}


async def test_values_stay_when_the_run_that_wrote_them_is_deleted(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await _storied(store, thread)
    run = await ended_run(store, thread, "next")
    after = await ended_run(store, thread, "after")
    await store.runs.delete(SPACE, base.id)
    for heir in (run, after, await ended_run(store, thread)):
        assert await _values(store, heir) == {"state": 3, "plan": ["p"]}


async def test_requested_values_of_a_deleted_run_no_longer_hide_those_of_its_base(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await _storied(store, thread)
    middle = await complete(store, await claim_run(store, await create_run(store, thread, values={"plan": "mine"})))
    heir = await create_run(store, thread)
    await store.runs.delete(SPACE, middle.id)
    assert await _values(store, heir) == {"state": 3, "plan": "mine"}
    fork = await create_run(store, thread, on_busy=OnBusy.FORK)
    assert await _values(store, fork) == {"state": 3, "plan": ["p"]}


async def test_values_of_a_long_chain_are_those_of_its_last_writer(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for number in range(20):
        lease = await claim_run(store, await create_run(store, thread))
        await complete(store, lease, **({"state": number} if number % 7 == 0 else {"todo": number}))
    assert await _values(store, await create_run(store, thread)) == {"state": 14, "todo": 19}
