"""Run creation: insert one run, or many in one batch, with input, first event and initial state.

A plain run (no parent, no explicit base, no idempotency key) is created in a batch with others. Any other run is
created in a transaction of its own. A run that may be claimed at once is kept in `Transaction.new_runs`, so that a
claim in the same transaction need not read it back.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.domain.commit import RunSnapshot
from holdfast.domain.errors import Conflict, HoldfastError, IdempotencyMismatch, IdTaken
from holdfast.domain.events import PROTOCOL_VERSION, RunStarted
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant, millis
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.message import not_run_result
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase, body_digest, title_of
from holdfast.domain.permission import RIGHTS_VALUE
from holdfast.domain.placement import child_nesting
from holdfast.domain.run import PRIORITY_HEAD_START_MS, Run, RunStatus, queue_key
from holdfast.domain.thread import NewThread, casefold_title
from holdfast.domain.worker import DEFAULT_POOL
from holdfast.ports.log import LogAppend, log_head
from holdfast.store.commit_rows import MessageRow, event_row, message_row
from holdfast.store.conditions import message_occurrences, note_occurrences
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


class CreateRunRequest(msgspec.Struct, frozen=True, eq=False):
    """A request to create a run in a space."""

    space: SpaceId
    new: NewRun
    body: str | None = None
    """The digest of the caller's request, if `new` holds more than that request."""
    awaited: bool = False
    """Whether the parent will wait for the run."""
    thread_agent: str | None = None
    """The agent that the thread must have, if any."""


class _RunInsert(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is being inserted, with its key and its encoded input."""

    new: NewRun
    placement: RunPlacement
    run: Run
    input: list[MessageRow]
    key: int


def run_started_event(run: Run, at: Millis) -> RunStarted:
    """Return the first event in the log of a run created at `at`."""
    return RunStarted(
        timestamp=at,
        thread_id=run.thread_id,
        run_id=run.id,
        protocol_version=PROTOCOL_VERSION,
        parent_run_id=UNSET if run.base_run_id is None else run.base_run_id,
    )


def can_be_batched(new: NewRun) -> bool:
    """Return whether a run can be created in a batch: it continues its thread's newest run, or starts a new root."""
    return not isinstance(new.base, RunBase) and new.parent_run_id is None and new.idempotency_key is None


async def create_run(tx: Transaction, request: CreateRunRequest) -> CreatedRun:
    """Create a run, or return the run that was created under the same idempotency key."""
    space, new, key = request.space, request.new, request.new.idempotency_key
    space_key = await lock_space_shared(tx, space)
    if key is not None:
        digest = request.body or body_digest(new)
        # An insert of the key blocks concurrent requests with the same key until this transaction has ended.
        if await tx.one("take_idempotency_key", space_key=space_key, key=key, digest=digest) is None:
            earlier = await run_of_idempotency_key(tx, space_key, key, digest=digest)
            if earlier is not None:
                return CreatedRun(run=earlier, replayed=True)
    placement = await find_placement(tx, space, space_key, new)
    if not _has_expected_agent(placement, request):
        raise Conflict(f"thread `{new.thread}` has another agent than `{request.thread_agent}`")
    (inserted,) = await _insert_runs(tx, [(new, placement)])
    if request.awaited and placement.parent is not None:
        parent = placement.parent
        await check_no_deadlock(tx, (parent["id"], parent["run_key"]), (inserted.run.id, inserted.key))
    if key is not None:
        await tx.run("settle_idempotency_key", space_key=space_key, key=key, run_key=inserted.key)
    return CreatedRun(run=inserted.run)


async def _create_batched_runs(
    tx: Transaction, requests: Sequence[CreateRunRequest]
) -> list[CreatedRun | HoldfastError]:
    """Create plain runs on different threads; a run that turns out not to be plain is created on its own."""
    found = await find_batch_placements(tx, [(request.space, request.new) for request in requests])
    placements = [
        placement if placement is not None and _has_expected_agent(placement, request) else None
        for placement, request in zip(found, requests, strict=True)
    ]
    plain = [
        (request.new, placement)
        for request, placement in zip(requests, placements, strict=True)
        if placement is not None
    ]
    inserted = iter(await _insert_runs(tx, plain))
    return [
        await create_run(tx, request) if placement is None else CreatedRun(run=next(inserted).run)
        for request, placement in zip(requests, placements, strict=True)
    ]


def _has_expected_agent(placement: RunPlacement, request: CreateRunRequest) -> bool:
    return request.thread_agent in (None, placement.thread["agent_type"])


CREATE_RUN_BATCH: Final = Batch(
    key=lambda request: (request.space, request.new.thread) if isinstance(request.new.thread, str) else request,
    apply=_create_batched_runs,
    enqueues=True,
)


async def run_of_idempotency_key(tx: Transaction, space_key: int, key: str, *, digest: str) -> Run | None:
    """Return the run created under a key, or `None`; raise if the body differs or the run was deleted."""
    row = await tx.one("idempotency_key", space_key=space_key, key=key)
    if row is None:
        return None
    if row["digest"] != digest:
        raise IdempotencyMismatch("this idempotency key was used with another body: choose another key")
    if row["run_key"] is None:
        raise Conflict("the run created under this idempotency key was deleted: choose another key")
    return await run_by_key(tx, row["run_key"])


async def _insert_runs(tx: Transaction, placed: Sequence[tuple[NewRun, RunPlacement]]) -> list[_RunInsert]:
    """Insert runs on different threads."""
    inserts = await _insert_run_rows(tx, placed)
    entered = await _add_input(tx, inserts)
    started = [run_started_event(insert.run, tx.now) for insert in inserts]
    events = list(map(event_row, started))
    await tx.many(
        "add_events", [(insert.key, 1, *event, tx.now) for insert, event in zip(inserts, events, strict=True)]
    )
    await _add_values(tx, inserts)
    await tx.many("add_budgets", [(insert.key,) for insert in inserts if has_budget(insert.run.limits)])
    on_new_threads = [insert for insert in inserts if isinstance(insert.new.thread, NewThread)]
    await tx.many(
        "mark_made_for_runs",
        [(insert.key, int(_is_spawned(insert)), insert.placement.thread_key) for insert in on_new_threads],
    )
    await note_occurrences(
        tx,
        (
            (insert.placement.space_key, said)
            for insert in inserts
            for said in message_occurrences(insert.run, insert.new.messages)
        ),
    )
    for insert, (rows, begun), first, event in zip(inserts, entered, started, events, strict=True):
        may_start, delayed = insert.placement.may_start, insert.run.wait_until is not None
        append = LogAppend(head=log_head(insert.run), events=[event], at=tx.now)
        tx.hints.add(grown=append, queue=may_start and not delayed, delayed=may_start and delayed)
        if may_start and not delayed:
            tx.new_runs[insert.key] = _new_run_row(insert, rows, begun, first)
    return inserts


def _is_spawned(insert: _RunInsert) -> bool:
    """Return whether another run started this one: an independent task has its rights, and no parent."""
    return insert.placement.parent is not None or RIGHTS_VALUE in insert.new.values


def _new_run_row(
    insert: _RunInsert, input_rows: Sequence[tuple[Any, ...]], begun: Row, started: RunStarted
) -> NewRunRow:
    placement, run = insert.placement, insert.run

    def snapshot() -> RunSnapshot | None:
        if placement.base is not None or insert.new.values:
            return None
        thread = dict(zip(placement.thread.keys(), placement.thread, strict=True))
        thread |= {"last_run_at": started.timestamp}
        thread |= {name: begun[name] for name in ("next_sequence", "title")}
        names = {"thread_id": run.thread_id, "run_id": run.id}
        messages = [dict(zip(MESSAGE_COLUMNS, values, strict=True)) | names for values in input_rows]
        return RunSnapshot(
            thread=to_thread(thread, run.space_id),
            messages=list(map(to_message, messages[-thread["context_window"] :])),
            steps=(),
            values={},
            inbox=(),
            interrupts=(),
            events=[started],
            last_event_seq=run.last_event_seq,
        )

    return NewRunRow(
        run=run,
        space_key=placement.space_key,
        thread_key=placement.thread_key,
        parent_key=run_key_or_none(placement.parent),
        snapshot=snapshot,
    )


def _build_run(tx: Transaction, new: NewRun, placement: RunPlacement) -> Run:
    thread, parent, now = placement.thread, placement.parent, instant(tx.now)
    run_id = new.id or RunId(tx.new_id("run"))
    return Run(
        id=run_id,
        thread_id=thread["id"],
        space_id=placement.space,
        mode=new.mode,
        agent_type=new.agent_type or thread["agent_type"],
        model=new.model,
        model_used=None,
        status=RunStatus.QUEUED if placement.may_start else RunStatus.PENDING,
        status_reason=None,
        base_run_id=None if placement.base is None else placement.base["id"],
        base_sequence=placement.base_sequence,
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
        output_schema=None if new.output_schema is UNSET else new.output_schema,
        agent_version=None if new.agent_version is UNSET else new.agent_version,
        iterations=0,
        attempt=0,
        wait_until=_wait_until(tx, new),
        idempotency_key=new.idempotency_key,
        last_event_seq=1,
        created_by=new.created_by,
        cancelled_by=None,
        created_at=now,
        queued_at=now if placement.may_start else None,
        started_at=None,
        completed_at=None,
    )


def _wait_until(tx: Transaction, new: NewRun) -> Instant | None:
    if new.delay_seconds is not UNSET:
        return instant(Millis(tx.now + round(new.delay_seconds * 1000))) if new.delay_seconds else None
    return None if new.wait_until is None else instant(millis(new.wait_until))


async def _insert_run_rows(tx: Transaction, placed: Sequence[tuple[NewRun, RunPlacement]]) -> list[_RunInsert]:
    """Insert runs, their ids, which must never have been used, and their heads."""
    runs = [_build_run(tx, new, placement) for new, placement in placed]
    rows = await tx.many(
        "add_runs", [_run_values(tx, run, placement) for run, (_, placement) in zip(runs, placed, strict=True)]
    )
    keys = {(row["space_key"], row["id"]): row["run_key"] for row in rows}
    names = [(placement.space_key, run.id) for run, (_, placement) in zip(runs, placed, strict=True)]
    if len(await tx.many("add_run_ids", [(*name, keys[name]) for name in names])) != len(runs):
        raise IdTaken(f"the run id `{runs[0].id}` was used before in this space: choose another", id=runs[0].id)
    inserts = [
        _RunInsert(
            new=new,
            placement=placement,
            run=run,
            input=[message_row(each) for each in (*map(not_run_result, placement.cut_off_calls), *new.messages)],
            key=keys[name],
        )
        for (new, placement), run, name in zip(placed, runs, names, strict=True)
    ]
    await tx.many("add_heads", [_head_values(tx, insert) for insert in inserts])
    return inserts


def _run_values(tx: Transaction, run: Run, placement: RunPlacement) -> tuple[Any, ...]:
    parent = placement.parent
    return (
        placement.space_key,
        placement.thread["thread_key"],
        run.id,
        run.mode.value,
        run.agent_type,
        run.model,
        run_key_or_none(placement.base),
        run.base_sequence,
        placement.position.depth,
        placement.position.jump,
        run_key_or_none(parent),
        None if parent is None else parent["root_key"] or parent["run_key"],
        0 if parent is None else child_nesting(parent["nesting"]),
        dump_optional_json(run.input),
        run.priority.value,
        dump_json(run.tags),
        dump_json(run.limits),
        dump_optional_json(run.output_schema),
        run.agent_version,
        run.idempotency_key,
        run.created_by,
        tx.now,
    )


def _head_values(tx: Transaction, insert: _RunInsert) -> tuple[Any, ...]:
    run = insert.run
    wait_until = None if run.wait_until is None else millis(run.wait_until)
    return (
        insert.key,
        run.status.value,
        PRIORITY_HEAD_START_MS[run.priority],
        queue_key(run.priority, max(tx.now, wait_until or tx.now)),
        tx.now if insert.placement.may_start else None,
        wait_until,
        run.last_event_seq,
        run_key_or_none(insert.placement.base or insert.placement.parent),
        insert.placement.space_key,
        DEFAULT_POOL if insert.new.pool is UNSET else insert.new.pool,
    )


async def _add_input(tx: Transaction, inserts: Sequence[_RunInsert]) -> list[tuple[Sequence[tuple[Any, ...]], Row]]:
    """Store the input; it gets its sequences now if the base has ended, else when the base ends.

    Return the message rows of each run, and the next sequence and the title of its thread.
    """
    based = [(insert.placement, insert.placement.base, insert.input) for insert in inserts]
    await check_new_ids(
        tx,
        [
            (ChainTip(placement.thread_key, base["run_key"], placement.base_sequence), messages)
            for placement, base, messages in based
            if base is not None
        ],
    )
    counts = [len(insert.input) if insert.placement.may_start else 0 for insert in inserts]
    threads = []
    for count, insert in zip(counts, inserts, strict=True):
        first = insert.placement.thread["last_run_at"] is None
        title = title_of(insert.new.messages, input=insert.new.input) if first else None
        threads.append((tx.now, count, title, casefold_title(title), insert.placement.thread_key))
    begun = {row["thread_key"]: row for row in await tx.many("begin_runs_on_threads", threads)}
    entered: list[tuple[Sequence[tuple[Any, ...]], Row]] = []
    for insert, count in zip(inserts, counts, strict=True):
        thread_key = insert.placement.thread_key
        end = begun[thread_key]["next_sequence"]
        sequences: Sequence[int | None] = range(end - count, end) if count else [None] * len(insert.input)
        values = [
            message_values(tx, message, thread_key=thread_key, run_key=insert.key, sequence=sequence)
            for message, sequence in zip(insert.input, sequences, strict=True)
        ]
        entered.append((values, begun[thread_key]))
    await tx.many("add_messages", [values for rows, _ in entered for values in rows])
    return entered


async def _add_values(tx: Transaction, inserts: Sequence[_RunInsert]) -> None:
    """Store the values of the request; the others are inherited from the base, if it has ended."""
    own = [(insert.key, name, -1, dump_json(value)) for insert in inserts for name, value in insert.new.values.items()]
    await tx.many("add_values", own)
    inherited = [
        (
            insert.key,
            insert.placement.base["run_key"],
            AFTER_LAST_SEQUENCE if insert.run.base_sequence is None else insert.run.base_sequence,
        )
        for insert in inserts
        if insert.placement.base is not None and insert.placement.may_start and insert.placement.base["has_values"]
    ]
    await tx.many("inherit_values", inherited)
