"""Run creation: insert one run, or many in one batch, with input, first event and initial state.

A plain run (no parent, no chosen base, no idempotency key) is created in a batch with others. Any other run is created
in a transaction of its own. A run that may be claimed at once is kept in `Transaction.new_runs`, so that a claim in the
same transaction need not read it back.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.domain.commit import RunSnapshot
from holdfast.domain.errors import Conflict, HoldfastError, IdempotencyMismatch, IdTaken
from holdfast.domain.events import PROTOCOL_VERSION, RunStarted
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase, body_digest
from holdfast.domain.placement import child_nesting
from holdfast.domain.run import PRIORITY_HEAD_START_MS, Run, RunStatus, queue_key
from holdfast.domain.thread import NewThread
from holdfast.ports.log import LogAppend, log_head
from holdfast.store.commit_rows import MessageRow, event_row, message_row
from holdfast.store.encoding import dump_json, dump_optional_json
from holdfast.store.inbox import check_no_deadlock
from holdfast.store.messages import (
    AFTER_LAST_SEQUENCE,
    MESSAGE_COLUMNS,
    ChainTip,
    check_new_ids,
    message_values,
    to_message,
)
from holdfast.store.placement import RunPlacement, find_batch_placements, find_placement, run_key_or_none
from holdfast.store.run_rows import run_by_key
from holdfast.store.run_state import has_budget
from holdfast.store.spaces import lock_space_shared
from holdfast.store.threads import to_thread
from holdfast.store.transaction import Batch, NewRunRow, Row, Transaction


class EnteredInput(msgspec.Struct, frozen=True):
    """The input of a run as it entered its thread: its rows, and the sequence that comes next."""

    messages: Sequence[tuple[Any, ...]]
    next_sequence: int


def run_started_event(run: Run, at: Millis) -> RunStarted:
    """Return what the log of a run begins with that was made at that time."""
    return RunStarted(
        timestamp=at,
        thread_id=run.thread_id,
        run_id=run.id,
        protocol_version=PROTOCOL_VERSION,
        parent_run_id=UNSET if run.base_run_id is None else run.base_run_id,
    )


def opening_of_new_run(run: Run, thread: Row, entrance: EnteredInput, started: RunStarted) -> RunSnapshot:
    """Return where a run stands that goes on from no other and was given no values."""
    now = {"next_sequence": entrance.next_sequence, "last_run_at": started.timestamp}
    names = {"thread_id": run.thread_id, "run_id": run.id}
    given = [dict(zip(MESSAGE_COLUMNS, values, strict=True)) | names for values in entrance.messages]
    return RunSnapshot(
        thread=to_thread(dict(zip(thread.keys(), thread, strict=True)) | now, run.space_id),
        messages=list(map(to_message, given[-thread["context_window"] :])),
        steps=(),
        values={},
        inbox=(),
        interrupts=(),
        events=[started],
        last_event_seq=run.last_event_seq,
    )


class CreateRunRequest(msgspec.Struct, frozen=True, eq=False):
    """A run to be made in a space."""

    space: SpaceId
    new: NewRun
    body: str | None = None
    """The digest of what the caller said, if `new` says more."""
    awaited: bool = False
    """Whether its parent will wait for it."""
    thread_agent: str | None = None
    """The agent that its thread must have, if it matters."""


class _RunInsert(msgspec.Struct, frozen=True, kw_only=True):
    """A run on its way into the tables."""

    new: NewRun
    placement: RunPlacement
    run: Run
    input: list[MessageRow]
    key: int


def can_be_batched(new: NewRun) -> bool:
    """Say whether a run may be made together with others: it goes on where its thread stands, or begins anew."""
    return not isinstance(new.base, RunBase) and new.parent_run_id is None and new.idempotency_key is None


async def create_run(tx: Transaction, request: CreateRunRequest) -> CreatedRun:
    """Make any run, or find the one that was made under the same idempotency key."""
    space, new = request.space, request.new
    in_space = await lock_space_shared(tx, space)
    earlier = await _run_created_earlier(tx, in_space, request)
    if earlier is not None:
        return CreatedRun(run=earlier, replayed=True)
    frame = await find_placement(tx, space, in_space, new)
    if not _has_expected_agent(frame, request):
        raise Conflict(f"thread `{new.thread}` has another agent than `{request.thread_agent}`")
    (birth,) = await _insert_runs(tx, [(new, frame)])
    if request.awaited and birth.placement.parent is not None:
        parent = birth.placement.parent
        await check_no_deadlock(tx, (parent["id"], parent["run_key"]), (birth.run.id, birth.key))
    if new.idempotency_key is not None:
        await tx.run("settle_idempotency_key", space_key=in_space, key=new.idempotency_key, run_key=birth.key)
    return CreatedRun(run=birth.run)


async def _create_batched_runs(
    tx: Transaction, requests: Sequence[CreateRunRequest]
) -> list[CreatedRun | HoldfastError]:
    """Make plain runs on different threads; one that turns out not to be so plain is made by itself."""
    found = await find_batch_placements(tx, [(request.space, request.new) for request in requests])
    frames = [
        frame if frame is not None and _has_expected_agent(frame, request) else None
        for frame, request in zip(found, requests, strict=True)
    ]
    framed = [(request.new, frame) for request, frame in zip(requests, frames, strict=True) if frame is not None]
    births = iter(await _insert_runs(tx, framed))
    return [
        await create_run(tx, request) if frame is None else CreatedRun(run=next(births).run)
        for request, frame in zip(requests, frames, strict=True)
    ]


def _has_expected_agent(frame: RunPlacement, request: CreateRunRequest) -> bool:
    return request.thread_agent in (None, frame.thread["agent_type"])


def _batch_key(request: CreateRunRequest) -> Hashable:
    return (request.space, request.new.thread) if isinstance(request.new.thread, str) else request


CREATE_RUN_BATCH: Final = Batch(name=_batch_key, apply=_create_batched_runs, enqueues=True)


async def _run_created_earlier(tx: Transaction, in_space: int, request: CreateRunRequest) -> Run | None:
    """Return the run of this key. A new key is taken first, so that others who have it wait here for this run."""
    key = request.new.idempotency_key
    if key is None:
        return None
    digest = request.body or body_digest(request.new)
    if await tx.one("take_idempotency_key", space_key=in_space, key=key, digest=digest) is not None:
        return None
    return await run_of_idempotency_key(tx, in_space, key, digest=digest)


async def run_of_idempotency_key(tx: Transaction, in_space: int, key: str, *, digest: str) -> Run | None:
    """Return the run that was made under a key, if it was used; another body and a deleted run are conflicts."""
    row = await tx.one("idempotency_key", space_key=in_space, key=key)
    if row is None:
        return None
    if row["digest"] != digest:
        raise IdempotencyMismatch("this idempotency key was used with another body: choose another key")
    if row["run_key"] is None:
        raise Conflict("the run that was made under this idempotency key has been deleted")
    return await run_by_key(tx, row["run_key"])


async def _insert_runs(tx: Transaction, framed: Sequence[tuple[NewRun, RunPlacement]]) -> list[_RunInsert]:
    """Put runs on different threads into the tables."""
    runs = [_build_run(tx, new, frame) for new, frame in framed]
    keys = await _add_runs(tx, runs, [frame for _, frame in framed])
    births = [
        _RunInsert(new=new, placement=frame, run=run, input=list(map(message_row, new.messages)), key=key)
        for (new, frame), run, key in zip(framed, runs, keys, strict=True)
    ]
    await tx.many("add_heads", [_head_values(tx, birth) for birth in births])
    entered = await _add_input(tx, births)
    started = [run_started_event(birth.run, tx.now) for birth in births]
    rows = list(map(event_row, started))
    await tx.many("add_events", [(birth.key, 1, *row, tx.now) for birth, row in zip(births, rows, strict=True)])
    await _add_values(tx, births)
    await tx.many("add_budgets", [(birth.key,) for birth in births if has_budget(birth.run.limits)])
    made = [birth for birth in births if isinstance(birth.new.thread, NewThread)]
    await tx.many("mark_made_for_runs", [(birth.key, birth.placement.thread["thread_key"]) for birth in made])
    for birth, row in zip(births, rows, strict=True):
        _wake_watchers(tx, birth, row)
    for birth, entrance, first in zip(births, entered, started, strict=True):
        if _may_be_claimed(birth):
            tx.new_runs[birth.key] = _new_run_row(birth, entrance, first)
    return births


def _may_be_claimed(birth: _RunInsert) -> bool:
    return birth.placement.may_start and birth.run.wait_until is None


def _new_run_row(birth: _RunInsert, entrance: EnteredInput, first: RunStarted) -> NewRunRow:
    frame = birth.placement
    anew = frame.base is None and not birth.new.values
    return NewRunRow(
        run=birth.run,
        space_key=frame.space_key,
        thread_key=frame.thread["thread_key"],
        parent_key=run_key_or_none(frame.parent),
        opening=lambda: opening_of_new_run(birth.run, frame.thread, entrance, first) if anew else None,
    )


def _wake_watchers(tx: Transaction, birth: _RunInsert, started: tuple[str, str]) -> None:
    grown = LogAppend(head=log_head(birth.run), events=[started], at=tx.now)
    delayed = birth.placement.may_start and birth.run.wait_until is not None
    tx.wake(grown=grown, queue=_may_be_claimed(birth), delayed=delayed)


def _build_run(tx: Transaction, new: NewRun, frame: RunPlacement) -> Run:
    thread, parent, now = frame.thread, frame.parent, instant(tx.now)
    run_id = new.id or RunId(tx.new_id("run"))
    return Run(
        id=run_id,
        thread_id=thread["id"],
        space_id=frame.space,
        mode=new.mode,
        agent_type=new.agent_type or thread["agent_type"],
        model=new.model,
        status=RunStatus.QUEUED if frame.may_start else RunStatus.PENDING,
        status_reason=None,
        base_run_id=None if frame.base is None else frame.base["id"],
        base_sequence=frame.base_sequence,
        parent_run_id=None if parent is None else parent["id"],
        root_run_id=run_id if parent is None else parent["root_run_id"],
        root_thread_id=thread["id"] if parent is None else parent["root_thread_id"],
        child_thread_id=None if parent is None else thread["id"],
        session_id=None,
        input=new.input,
        output=None,
        error=None,
        usage=ZERO_USAGE,
        priority=new.priority,
        tags=new.tags,
        limits=new.limits,
        iterations=0,
        attempt=0,
        wait_until=None if new.wait_until is None else instant(millis(new.wait_until)),
        idempotency_key=new.idempotency_key,
        last_event_seq=1,
        created_by=new.created_by,
        cancelled_by=None,
        created_at=now,
        queued_at=now if frame.may_start else None,
        started_at=None,
        completed_at=None,
    )


async def _add_runs(tx: Transaction, runs: Sequence[Run], frames: Sequence[RunPlacement]) -> list[int]:
    """Insert runs and take their ids, which must never have been used; return their keys."""
    rows = await tx.many("add_runs", [_run_values(tx, run, frame) for run, frame in zip(runs, frames, strict=True)])
    found = {(row["space_key"], row["id"]): row["run_key"] for row in rows}
    names = [(frame.space_key, run.id) for run, frame in zip(runs, frames, strict=True)]
    taken = await tx.many("add_run_ids", [(*name, found[name]) for name in names])
    if len(taken) != len(runs):
        raise IdTaken(f"the run id `{runs[0].id}` was used before in this space", id=runs[0].id)
    return [found[name] for name in names]


def _run_values(tx: Transaction, run: Run, frame: RunPlacement) -> tuple[Any, ...]:
    parent = frame.parent
    return (
        frame.space_key,
        frame.thread["thread_key"],
        run.id,
        run.mode.value,
        run.agent_type,
        run.model,
        run_key_or_none(frame.base),
        run.base_sequence,
        frame.place.depth,
        frame.place.jump,
        run_key_or_none(parent),
        None if parent is None else parent["root_key"] or parent["run_key"],
        0 if parent is None else child_nesting(parent["nesting"]),
        dump_optional_json(run.input),
        run.priority.value,
        dump_json(run.tags),
        dump_json(run.limits),
        run.idempotency_key,
        run.created_by,
        tx.now,
    )


def _head_values(tx: Transaction, birth: _RunInsert) -> tuple[Any, ...]:
    run = birth.run
    wait_until = None if run.wait_until is None else millis(run.wait_until)
    return (
        birth.key,
        run.status.value,
        PRIORITY_HEAD_START_MS[run.priority],
        queue_key(run.priority, max(tx.now, wait_until or tx.now)),
        tx.now if birth.placement.may_start else None,
        wait_until,
        run.last_event_seq,
    )


async def _add_input(tx: Transaction, births: Sequence[_RunInsert]) -> list[EnteredInput]:
    """Keep the input; it enters the conversation now if the base has ended, else when it ends."""
    await check_new_ids(
        tx, [(_chain_tip(birth.placement), birth.input) for birth in births if birth.placement.base is not None]
    )
    entering = [len(birth.input) if birth.placement.may_start else 0 for birth in births]
    threads = [birth.placement.thread["thread_key"] for birth in births]
    begun = await tx.many(
        "begin_runs_on_threads", [(tx.now, count, key) for count, key in zip(entering, threads, strict=True)]
    )
    following = {row["thread_key"]: row["next_sequence"] for row in begun}
    entrances = [
        EnteredInput(list(_input_rows(tx, birth, following[key] - count if count else None)), following[key])
        for birth, count, key in zip(births, entering, threads, strict=True)
    ]
    await tx.many("add_messages", [values for entrance in entrances for values in entrance.messages])
    return entrances


def _input_rows(tx: Transaction, birth: _RunInsert, first: int | None) -> Iterator[tuple[Any, ...]]:
    """Yield the input of a run as rows, from the sequence `first` on if it has a place."""
    for index, message in enumerate(birth.input):
        sequence = None if first is None else first + index
        thread_key = birth.placement.thread["thread_key"]
        yield message_values(tx, message, thread_key=thread_key, run_key=birth.key, sequence=sequence)


def _chain_tip(frame: RunPlacement) -> ChainTip:
    assert frame.base is not None
    return ChainTip(frame.thread["thread_key"], frame.base["run_key"], frame.base_sequence)


async def _add_values(tx: Transaction, births: Sequence[_RunInsert]) -> None:
    """Keep the values that were given; the others come from the base, if it has ended."""
    given = [(birth.key, name, -1, dump_json(value)) for birth in births for name, value in birth.new.values.items()]
    await tx.many("add_values", given)
    inherited = [
        (
            birth.key,
            birth.placement.base["run_key"],
            AFTER_LAST_SEQUENCE if birth.run.base_sequence is None else birth.run.base_sequence,
        )
        for birth in births
        if birth.placement.base is not None and birth.placement.may_start and birth.placement.base["has_values"]
    ]
    await tx.many("inherit_values", inherited)
