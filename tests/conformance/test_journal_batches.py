"""`Journal.commit`: commits in one batch succeed or fail alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, InboxNotEmpty, Invalid
from holdfast.domain.ids import ArtifactId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, assistant, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import COMPLETED, commit, get, messages_of, model_step, queued

MANY = 24


def good(lease: Lease, number: int = 1) -> Commit:
    return Commit(
        lease=lease,
        messages=[assistant(f"{number}")],
        events=text_events(f"{number}", id=f"m{number}"),
        steps=[model_step(number + 10, StepState.DONE)],
    )


BAD: dict[str, tuple[Callable[[Lease], Commit], type[HoldfastError]]] = {
    "a message id that is taken": (
        lambda lease: Commit(lease=lease, messages=[assistant("again", id="said")], events=text_events("lost")),
        IdTaken,
    ),
    "an inbox item that is not there": (
        lambda lease: Commit(lease=lease, consumed=[9], messages=[assistant("lost")], events=text_events("lost")),
        Invalid,
    ),
    "a step that has settled": (
        lambda lease: Commit(lease=lease, steps=[model_step(1, StepState.FAILED)], events=text_events("lost")),
        Conflict,
    ),
    "an end with something unread": (
        lambda lease: Commit(lease=lease, move=COMPLETED, messages=[assistant("lost")], events=text_events("lost")),
        InboxNotEmpty,
    ),
}


async def claimed(store: Store, count: int) -> list[Lease]:
    """Claim that many runs, each with a message, a settled step and an unread item."""
    for _ in range(count):
        await queued(store)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=count)
    for lease in leases:
        await commit(store, lease, messages=[assistant("hello", id="said")], steps=[model_step(1, StepState.DONE)])
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    return leases


async def written(store: Store, lease: Lease) -> tuple[int, int, int]:
    """Return the numbers of messages, events and steps of a run."""
    return (
        len(await messages_of(store, lease.run_id)),
        len(await store.events.after(SPACE, lease.run_id)),
        len(await store.steps.of_run(SPACE, lease.run_id)),
    )


@pytest.mark.parametrize("why", BAD)
async def test_a_failed_commit_does_not_affect_others(store: Store, why: str) -> None:
    spoil, error = BAD[why]
    leases = await claimed(store, MANY)
    commits = [spoil(lease) if index % 8 == 5 else good(lease) for index, lease in enumerate(leases)]
    outcomes = await asyncio.gather(*(store.journal.commit(each) for each in commits), return_exceptions=True)
    for index, (lease, outcome) in enumerate(zip(leases, outcomes, strict=True)):
        bad = index % 8 == 5
        assert isinstance(outcome, error if bad else Committed)
        assert await written(store, lease) == ((1, 1, 1) if bad else (2, 4, 2))
        run = await get(store, lease.run_id)
        assert (run.status, run.last_event_seq) == (RunStatus.RUNNING, 1 if bad else 4)
        assert [item.number for item in await store.journal.inbox(lease)] == [1]
        await store.journal.commit(good(lease, 2))


async def test_all_kinds_of_bad_commits_at_once_leave_the_good_ones(store: Store) -> None:
    leases = await claimed(store, MANY)
    kinds = [*BAD.values(), None, None]
    chosen = [kinds[index % len(kinds)] for index in range(MANY)]
    outcomes = await asyncio.gather(
        *(store.journal.commit((kind[0] if kind else good)(lease)) for kind, lease in zip(chosen, leases, strict=True)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [kind[1] if kind else Committed for kind in chosen]
    for kind, lease in zip(chosen, leases, strict=True):
        assert await written(store, lease) == ((1, 1, 1) if kind else (2, 4, 2))


async def test_a_bad_commit_between_two_of_its_own_lease_leaves_both(store: Store) -> None:
    (lease, *others) = await claimed(store, 4)
    bad = Commit(lease=lease, messages=[assistant("again", id="said")], events=text_events("lost"))
    commits = [good(lease, 1), bad, good(lease, 2), *map(good, others)]
    outcomes = await asyncio.gather(*(store.journal.commit(each) for each in commits), return_exceptions=True)
    assert [isinstance(outcome, Committed) for outcome in outcomes] == [True, False, True, True, True, True]
    assert [content for _, _, content in await messages_of(store, lease.run_id)] == ["hello", "1", "2"]
    assert [event.seq for event in await store.events.after(SPACE, lease.run_id)] == list(range(1, 8))


async def test_an_invalid_commit_never_joins_a_batch(store: Store) -> None:
    first, second = await claimed(store, 2)
    impossible: list[dict[str, Any]] = [
        {"values": {"secret": 1}},
        {"consumed": [1, 1]},
        {"messages": [assistant("a", id="not an id")]},
        {"messages": [assistant("\ud800")]},
        {"steps": [model_step(5, StepState.DONE)]},
        {"artifacts": [NewArtifact(type=ArtifactType.DOC, title="neither")]},
    ]
    for parts in impossible:
        refused, made = await asyncio.gather(
            commit(store, first, **parts), commit(store, second, events=text_events("x")), return_exceptions=True
        )
        assert isinstance(refused, Invalid)
        assert isinstance(made, Committed)
    assert await written(store, first) == (1, 1, 1)


async def test_a_commit_whose_caller_was_cancelled_is_written_whole_or_not_at_all(store: Store) -> None:
    leases = await claimed(store, MANY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(store.journal.commit(good(lease))) for lease in leases]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
    # The next commit of each run is applied after the previous one, whatever its outcome.
    await asyncio.gather(*(commit(store, lease) for lease in leases))
    for index, lease in enumerate(leases):
        assert await written(store, lease) in ([(1, 1, 1), (2, 4, 2)] if index % 2 == 0 else [(2, 4, 2)])


async def test_runs_that_make_the_same_artifact_at_once_each_make_a_version(stores: list[Store]) -> None:
    leases = await claimed(stores[0], 12)
    new = NewArtifact(type=ArtifactType.DOC, title="shared", content="x", id=ArtifactId("shared"))
    await asyncio.gather(
        *(commit(stores[index % len(stores)], lease, artifacts=[new]) for index, lease in enumerate(leases))
    )
    versions = [artifact.version for artifact in await stores[0].artifacts.versions(SPACE, ArtifactId("shared"))]
    assert versions == list(range(1, 13))
