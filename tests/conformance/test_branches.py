"""Branches: messages after one, where two chains part, and what each did from there on."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.branch import ForkPoint
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Run
from holdfast.domain.step import StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import assistant, new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import COMPLETED, child_of, commit, get, model_step, tool_step


async def _turn(
    store: Store, thread: ThreadId, said: str, clock: HeldClock, *, spawns: bool = False, **options: Any
) -> Run:
    """Play a turn: one question, two model calls, and a tool call that fails."""
    run = (await store.runs.create(SPACE, NewRun(thread=thread, messages=[user(said)], **options))).run
    lease = await claim_run(store, run)
    cost = Usage(input_tokens=10, cost_usd=1.0)
    clock.tick(timedelta(seconds=1))
    done = model_step(1, StepState.DONE, usage=cost)
    await commit(store, lease, steps=[done], messages=[assistant(f"{said}?")], usage=cost)
    clock.tick(timedelta(seconds=1))
    if spawns:
        child = await claim_run(store, await child_of(store, run.id))
        await commit(store, child, usage=Usage(input_tokens=5, cost_usd=0.5), move=COMPLETED)
    steps = [tool_step(2, "c", StepState.FAILED), model_step(3, StepState.DONE, usage=cost)]
    await commit(store, lease, steps=steps, messages=[assistant(f"{said}!")], usage=cost)
    consumed = [item.number for item in await store.journal.inbox(lease)]
    await commit(store, lease, consumed=consumed, move=COMPLETED)
    return await get(store, run.id)


def _texts(messages: list[Message]) -> list[object]:
    return [message.content for message in messages]


async def test_messages_after_a_sequence_follow_the_branch(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    first = await _turn(store, thread, "a", clock)
    second = await _turn(store, thread, "b", clock)
    fork = await _turn(store, thread, "x", clock, base=RunBase(run_id=first.id, sequence=1))
    assert _texts(await store.messages.after(SPACE, second.id, sequence=1, limit=3)) == ["a!", "b", "b?"]
    assert _texts(await store.messages.after(SPACE, second.id, limit=2)) == ["a", "a?"]
    assert _texts(await store.messages.after(SPACE, fork.id, sequence=0)) == ["a?", "x", "x?", "x!"]
    last = (await store.messages.of_run(SPACE, fork.id))[-1].sequence
    assert await store.messages.after(SPACE, fork.id, sequence=last) == []
    active = await claim_run(store, (await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("v")]))).run)
    waiting = NewRun(thread=thread, messages=[user("w")], base=RunBase(run_id=active.run_id))
    tip = (await store.runs.create(SPACE, waiting)).run
    assert _texts(await store.messages.after(SPACE, tip.id, sequence=last)) == ["v", "w"]
    assert _texts(await store.messages.after(SPACE, tip.id, sequence=last, limit=1)) == ["v"]
    for run, sequence in ((fork.id, 2), (second.id, last), (second.id, 99)):
        with pytest.raises(Invalid):
            await store.messages.after(SPACE, run, sequence=sequence)
    with pytest.raises(NotFound):
        await store.messages.after(OTHER, fork.id)


async def test_two_branches_part_at_their_last_common_message(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    first = await _turn(store, thread, "a", clock)
    second = await _turn(store, thread, "b", clock)
    fork = await _turn(store, thread, "x", clock, base=RunBase(run_id=first.id, sequence=1))
    tip = await _turn(store, thread, "y", clock, base=RunBase(run_id=fork.id))
    sibling = await _turn(store, thread, "z", clock, base=RunBase(run_id=first.id))
    root = await _turn(store, thread, "r", clock, base=None)
    common, end = ForkPoint(run_id=first.id, sequence=1), ForkPoint(run_id=first.id, sequence=2)
    for a, b, point in [
        (second, tip, common),
        (tip, second, common),
        (first, tip, common),
        (second, sibling, end),
        (second, first, end),
        (second, root, None),
    ]:
        assert await store.runs.branch_point(SPACE, a.id, b.id) == point
    elsewhere = await _turn(store, await new_thread(store, SPACE), "e", clock)
    with pytest.raises(Invalid):
        await store.runs.branch_point(SPACE, first.id, elsewhere.id)
    with pytest.raises(NotFound):
        await store.runs.branch_point(OTHER, first.id, second.id)


async def test_the_totals_of_a_branch_begin_after_the_common_message(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    first = await _turn(store, thread, "a", clock)
    fork = await _turn(store, thread, "x", clock, base=RunBase(run_id=first.id, sequence=1))
    tip = await _turn(store, thread, "y", clock, spawns=True, base=RunBase(run_id=fork.id))
    ours = await store.runs.branch_totals(SPACE, tip.id, other=first.id)
    assert (ours.runs, ours.model_calls, ours.tool_calls, ours.failed_steps) == (2, 4, {"look": 2}, 2)
    assert (ours.usage.cost_usd, ours.tree_usage.cost_usd, ours.duration_seconds) == (4.0, 4.5, 4.0)
    theirs = await store.runs.branch_totals(SPACE, first.id, other=tip.id)
    assert (theirs.runs, theirs.model_calls, theirs.tool_calls) == (1, 1, {"look": 1})
    assert (theirs.usage.cost_usd, theirs.tree_usage.cost_usd) == (1.0, 1.0)
