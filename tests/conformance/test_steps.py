"""`Steps`: the model and tool calls of a run, and how they settled."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.limits import Usage
from holdfast.domain.step import StepKind, StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, assistant, call, claim, result, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import QUEUED, commit, model_step, running, seconds_from_now, tool_step
from tests.conformance.tables import rows_of

SETTLED = [StepState.DONE, StepState.FAILED, StepState.UNKNOWN]


async def steps(store: Store, run: RunId) -> list[tuple[int, StepState]]:
    return [(step.number, step.state) for step in await store.steps.of_run(SPACE, run)]


async def test_steps_are_ordered_by_number(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, steps=[model_step(3), model_step(1)])
    await commit(store, lease, steps=[model_step(2)])
    assert [number for number, _ in await steps(store, lease.run_id)] == [1, 2, 3]


async def test_the_steps_of_a_missing_run_are_not_found(store: Store) -> None:
    lease = await running(store)
    with pytest.raises(NotFound):
        await store.steps.of_run(SPACE, RunId("nobody"))
    with pytest.raises(NotFound):
        await store.steps.of_run(OTHER, lease.run_id)


async def test_a_step_is_read_back_unchanged(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    began = tool_step(1, "c1", attempt=2, effectful=True, request_digest="d1")
    await commit(store, lease, messages=[assistant("", call("c1"))], steps=[began])
    (kept,) = await store.steps.of_run(SPACE, lease.run_id)
    started = seconds_from_now(clock, 0)
    assert kept == replace(began, started_at=started)
    clock.tick(MINUTE)
    usage = Usage(input_tokens=5, output_tokens=1, cost_usd=None)
    ended = tool_step(1, "c1", StepState.DONE, attempt=3, effectful=True, request_digest="d1", usage=usage)
    await commit(store, lease, messages=[result("c1")], steps=[ended])
    (kept,) = await store.steps.of_run(SPACE, lease.run_id)
    assert kept == replace(ended, started_at=started, settled_at=seconds_from_now(clock, 0))


async def test_a_step_may_start_and_settle_in_one_commit(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(store, lease, messages=[assistant("hi")], steps=[model_step(1, StepState.DONE)])
    (kept,) = await store.steps.of_run(SPACE, lease.run_id)
    assert (kept.started_at, kept.settled_at) == (seconds_from_now(clock, 0), seconds_from_now(clock, 0))


async def test_an_interrupted_step_may_start_again(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, steps=[model_step(1)], move=QUEUED)
    again = await claim(store)
    await commit(store, again, steps=[model_step(1, attempt=2)])
    (kept,) = await store.steps.of_run(SPACE, lease.run_id)
    assert (kept.state, kept.attempt) == (StepState.STARTED, 2)


@pytest.mark.parametrize("settled", SETTLED)
async def test_a_step_settles_once(store: Store, where: str | Path, settled: StepState) -> None:
    lease = await running(store)
    await commit(store, lease, messages=[assistant("", call("c1")), result("c1")], steps=[tool_step(1, "c1", settled)])
    before = await rows_of(where)
    for state in StepState:
        with pytest.raises(Conflict):
            await commit(store, lease, messages=[result("c1", "again")], steps=[tool_step(1, "c1", state)])
    assert await rows_of(where) == before


async def test_a_model_step_is_done_only_with_its_message(store: Store) -> None:
    lease = await running(store)
    done = model_step(1, StepState.DONE)
    for messages in ([], [user("not the model")], [result("c1")]):
        with pytest.raises(Invalid):
            await commit(store, lease, messages=messages, steps=[done])
    await commit(store, lease, messages=[assistant("hi")], steps=[done])
    assert await steps(store, lease.run_id) == [(1, StepState.DONE)]


async def test_a_tool_step_is_done_only_with_its_result(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, messages=[assistant("", call("c1"), call("c2"))], steps=[tool_step(1, "c1")])
    done = tool_step(1, "c1", StepState.DONE)
    for messages in ([], [assistant("not the tool")], [result("c2")]):
        with pytest.raises(Invalid):
            await commit(store, lease, messages=messages, steps=[done])
    await commit(store, lease, messages=[result("c1")], steps=[done])
    assert await steps(store, lease.run_id) == [(1, StepState.DONE)]


@pytest.mark.parametrize("state", [StepState.FAILED, StepState.UNKNOWN])
async def test_a_step_that_is_not_done_needs_no_message(store: Store, state: StepState) -> None:
    lease = await running(store)
    await commit(store, lease, steps=[model_step(1, state)])
    assert await steps(store, lease.run_id) == [(1, state)]


async def test_a_step_may_appear_once_per_commit(store: Store) -> None:
    lease = await running(store)
    with pytest.raises(Invalid):
        await commit(store, lease, steps=[model_step(1), model_step(1, StepState.FAILED)])
    assert await steps(store, lease.run_id) == []


async def test_steps_are_numbered_per_run(store: Store) -> None:
    first, second = await running(store), await running(store)
    await commit(store, first, steps=[model_step(1, StepState.FAILED)])
    await commit(store, second, steps=[model_step(1)])
    assert await steps(store, second.run_id) == [(1, StepState.STARTED)]
    assert [step.kind for step in await store.steps.of_run(SPACE, second.run_id)] == [StepKind.MODEL]
