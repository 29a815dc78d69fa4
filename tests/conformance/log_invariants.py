"""Checks that a store matches the model, and keeps the invariants of the log."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

from holdfast.domain.commit import RunSnapshot
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.events import decode_event, event_type
from holdfast.domain.ids import MessageId, SpaceId
from holdfast.domain.instant import Millis, maybe_instant
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.message import Message, Role
from holdfast.domain.run import RunStatus
from holdfast.domain.stream import StreamNormaliser
from holdfast.store.store import Store
from holdfast.testing.stream_verifier import verify_stream
from tests.conformance.log_model import Model, ModelRun, Said
from tests.support.database_probe import Probe
from tests.support.log_check import check_log

SPACE: Final = SpaceId("acme")
ALL: Final = 1000

_ENDS: Final = {"RUN_FINISHED", "RUN_ERROR"}
_BUDGETS: Final = "SELECT r.id, b.tokens FROM budgets b JOIN runs r ON r.run_key = b.run_key"
_HEADS: Final = """
    SELECT r.id, r.erased, h.status, h.lease_number, h.lease_owner, h.lease_expires_at, h.attempt, h.unread,
           h.wait_until, h.last_event_seq
      FROM runs r JOIN run_heads h ON h.run_key = r.run_key
     ORDER BY r.run_key
"""


async def check_touched(store: Store, model: Model) -> None:
    """Compare all state of the runs that changed."""
    for run in model.runs:
        if run in model.touched:
            await _check_run(store, run)
    model.touched.clear()


async def check_heads(store: Store, probe: Probe, model: Model, now: Millis) -> None:
    """Compare the status of each run, and the claimable runs."""
    rows = model.rows()
    heads = await probe.rows(_HEADS)
    assert [head["id"] for head in heads] == [run.id for run in rows]
    for head, run in zip(heads, rows, strict=True):
        _check_head(dict(head) | {"wait_until": _later(head["wait_until"], now)}, run, now)
    queued = [run for run in rows if run.status is RunStatus.QUEUED]
    later = [run.wait_until for run in queued if run.wait_until is not None and run.wait_until > now]
    state = await store.leases.queue_state()
    assert state.ready == any(run.ready(now) for run in queued)
    assert state.next_at == maybe_instant(Millis(min(later)) if later else None)


def check_opening(opening: RunSnapshot, run: ModelRun) -> None:
    """Compare the snapshot that a worker opens."""
    assert _names(opening.messages) == [said.name for said in run.chain()][-opening.thread.context_window :]
    assert opening.values == run.values()
    assert {step.number: step.state for step in opening.steps} == {n: step.state for n, step in run.steps.items()}
    still_open = [name for name, status in run.asked.items() if status is InterruptStatus.OPEN]
    assert [asked.id for asked in opening.interrupts] == still_open
    assert opening.last_event_seq == len(run.events)
    stream = StreamNormaliser.resume(run.thread.id, run.id, opening.events)
    assert set(stream.open_tool_calls) == set(run.open_calls())


async def check_everything(store: Store, probe: Probe, model: Model) -> None:
    """Compare all runs, and read every chain in pages and by message id."""
    model.touched |= set(model.runs)
    await check_touched(store, model)
    await check_log(probe)
    budgets = await probe.rows(_BUDGETS)
    spent = {run.id: run.spent for run in model.existing() if run.budget is not None}
    assert {row["id"]: row["tokens"] for row in budgets} == spent
    for run in model.existing():
        await _check_pages(store, run, model)
        await _check_ids(store, run, model)


async def _check_run(store: Store, run: ModelRun) -> None:
    if run.deleted:
        with pytest.raises(NotFound):
            await store.runs.get(SPACE, run.id)
        return
    seen = await store.runs.get(SPACE, run.id)
    assert (seen.status, seen.iterations, seen.thread_id) == (run.status, run.iterations, run.thread.id)
    assert seen.base_run_id == (None if run.base is None else run.base.id)
    assert seen.parent_run_id == (None if run.parent is None else run.parent.id)
    assert (seen.completed_at is not None) == run.status.terminal
    await _check_events(store, run)
    await _check_messages(store, run)
    assert await store.values.of_run(SPACE, run.id) == run.values()
    steps = await store.steps.of_run(SPACE, run.id)
    assert [(step.number, step.state) for step in steps] == [(n, step.state) for n, step in run.steps.items()]
    interrupts = await store.interrupts.of_run(SPACE, run.id)
    assert [(asked.id, asked.status) for asked in interrupts] == list(run.asked.items())
    for name, timer in run.timers.items():
        assert (await store.timers.get(SPACE, name)).state is timer.state


async def _check_events(store: Store, run: ModelRun) -> None:
    logged = await store.events.after(SPACE, run.id, limit=ALL)
    assert [event.seq for event in logged] == list(range(1, len(logged) + 1))
    assert logged[0].type == "RUN_STARTED"
    if run.cut_short:
        closing = [event.type for event in logged[len(run.events) :]]
        assert [type_ for type_ in closing if type_ in _ENDS] == closing[-1:]
        run.events += [event.data for event in logged[len(run.events) :]]
        run.cut_short = False
    assert [event.data for event in logged] == run.events
    events = [decode_event(event.data) for event in logged]
    assert [event_type(event) for event in events] == [event.type for event in logged]
    verify_stream(events, complete=run.status.terminal)
    stream = StreamNormaliser.resume(run.thread.id, run.id, events)
    assert set(stream.open_tool_calls) == set(run.open_calls())
    assert run.live or not run.open_calls()


async def _check_messages(store: Store, run: ModelRun) -> None:
    own = await store.messages.of_run(SPACE, run.id)
    assert _names(own) == [said.name for said in run.said]
    history = await store.messages.history(SPACE, run.id, limit=ALL)
    assert _names(history) == [said.name for said in run.history()]
    entered = [message.sequence for message in history[: len(run.chain())] if message.sequence is not None]
    assert len(entered) == len(run.chain())
    assert entered == sorted(set(entered))
    assert all(message.sequence is None for message in history[len(entered) :])


def _check_head(head: dict[str, Any], run: ModelRun, now: Millis) -> None:
    unknown = run.cut_short and not run.deleted
    expected = {
        "id": run.id,
        "erased": int(run.deleted),
        "status": run.status,
        "lease_number": run.lease_number,
        "lease_owner": run.owner,
        "lease_expires_at": None if run.owner is None else run.expires_at,
        "attempt": run.attempt,
        "unread": len(run.unread),
        "wait_until": _later(run.wait_until, now),
        "last_event_seq": 0 if run.deleted else head["last_event_seq"] if unknown else len(run.events),
    }
    assert head == expected, {name: (head[name], expected[name]) for name in head if head[name] != expected[name]}
    assert run.status is not RunStatus.WAITING or not head["unread"]
    assert run.status is not RunStatus.PENDING or not run.may_begin
    assert head["lease_owner"] is None or run.status is RunStatus.RUNNING or run.status.terminal


async def _check_pages(store: Store, run: ModelRun, model: Model) -> None:
    """Read history before some messages of the thread: messages that are not on the chain are refused."""
    chain = [said.name for said in run.chain()]
    # By sequence: a call that a fork left before its result has another result there.
    sequences = [message.sequence for message in await store.messages.history(SPACE, run.id, limit=ALL)][: len(chain)]
    for other in model.existing():
        if other.thread is run.thread:
            for message in (await store.messages.of_run(SPACE, other.id))[:: len(chain) // 4 + 1]:
                if message.sequence is not None and message.sequence in sequences:
                    page = await store.messages.history(SPACE, run.id, before=message.sequence, limit=2)
                    index = sequences.index(message.sequence)
                    assert _names(page) == chain[max(index - 2, 0) : index]
                elif message.sequence is not None:
                    with pytest.raises(Invalid):
                        await store.messages.history(SPACE, run.id, before=message.sequence)


async def _check_ids(store: Store, run: ModelRun, model: Model) -> None:
    """Look up every message id of the thread: the message on the chain is found."""
    on_chain = {said.id: said for said in _visible(run)}
    said_on_thread = [said for other in model.existing() if other.thread is run.thread for said in other.said]
    for name in dict.fromkeys(said.id for said in said_on_thread):
        if name is not None and name in on_chain:
            assert _name(await store.messages.get(SPACE, run.id, name)) == on_chain[name].name
        elif name is not None:
            with pytest.raises(NotFound):
                await store.messages.get(SPACE, run.id, MessageId(name))


def _visible(run: ModelRun) -> list[Said]:
    """Return the messages on the chain, including those without a sequence."""
    found, at, first = list[Said](), run, None
    while True:
        found += [] if at.deleted else at.said[:first]
        if at.base is None:
            return found
        at, first = at.base, at.cut


def _names(messages: Iterable[Message]) -> list[str]:
    return [_name(message) for message in messages]


def _name(message: Message) -> str:
    return f"answer {message.tool_call_id}" if message.role is Role.TOOL else str(message.content)


def _later(at: int | None, now: Millis) -> int | None:
    """Return a time unless it has passed: the store may or may not keep a past one."""
    return at if at is not None and at > now else None
