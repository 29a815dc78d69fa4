"""Pages of the steps of a run and of its tree, with the workers and times of each."""

import pytest

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId
from holdfast.domain.instant import instant
from holdfast.domain.step import StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, claim
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import child_of, commit, model_step, queued, running, tool_step


async def test_the_steps_of_a_tree_are_paged_parents_first(store: Store) -> None:
    root = await queued(store, "x")
    lease = await claim_run(store, root)
    child = await child_of(store, root.id, id=RunId(derived_id("run", key="step-2")))
    other = await claim_run(store, child)
    await commit(store, other, steps=[model_step(number) for number in (1, 2)])
    await commit(store, lease, steps=[model_step(1), tool_step(2, "c"), model_step(3)])
    found, cursor = [], None
    for _ in range(3):
        page = await store.steps.page(SPACE, root.id, tree=True, limit=2, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
    assert [(step.run_id, step.number, step.child_run_id) for step in found] == [
        (root.id, 1, None),
        (root.id, 2, child.id),
        (root.id, 3, None),
        (child.id, 1, None),
        (child.id, 2, None),
    ]
    assert cursor is None
    own = await store.steps.page(SPACE, root.id, limit=2)
    rest = await store.steps.page(SPACE, root.id, limit=2, cursor=own.next_cursor)
    assert [step.number for step in (*own.items, *rest.items)] == [1, 2, 3]
    below = await store.steps.page(SPACE, child.id, tree=True)
    assert [step.number for step in below.items] == [1, 2]
    with pytest.raises(NotFound):
        await store.steps.page(OTHER, root.id, tree=True)


async def test_a_step_names_the_workers_of_all_attempts_and_its_first_token(store: Store, clock: HeldClock) -> None:
    lost = await running(store, "x")
    begun = clock.now()
    await commit(store, lost, steps=[model_step(1)])
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    again = clock.now()
    lease = await claim(store, SECOND)
    await commit(store, lease, steps=[model_step(1, attempt=2)])
    clock.tick(MINUTE)
    token = instant(clock.now())
    done = model_step(1, StepState.DONE, attempt=2, first_token_at=token)
    await commit(store, lease, steps=[done], messages=[assistant("y")])
    (step,) = (await store.steps.page(SPACE, lease.run_id)).items
    assert (step.worker, step.first_token_at, step.started_at) == (SECOND, token, instant(begun))
    assert [(each.attempt, each.worker, each.started_at) for each in step.attempts] == [
        (1, FIRST, instant(begun)),
        (2, SECOND, instant(again)),
    ]


async def test_a_cursor_of_another_list_of_steps_is_refused(store: Store) -> None:
    run, other = await queued(store, "x"), await queued(store, "y")
    for tree, cursor in [
        (True, "1"),
        (True, f"{other.id}.1"),
        (True, f"{run.id}.x"),
        (True, f"{run.id}."),
        (True, ".1"),
    ]:
        with pytest.raises(Invalid):
            await store.steps.page(SPACE, run.id, tree=tree, cursor=cursor)
    for cursor in (f"{run.id}.1", "x", "-1", "9" * 30):
        with pytest.raises(Invalid):
            await store.steps.page(SPACE, run.id, cursor=cursor)
