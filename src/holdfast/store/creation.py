"""How a run comes into being, in one transaction."""

import msgspec
from msgspec import UNSET

from holdfast.domain.busy import LiveRun, OnBusy, Start, place_on_busy
from holdfast.domain.errors import Conflict, IdempotencyMismatch, IdTaken, Invalid, NotFound
from holdfast.domain.events import PROTOCOL_VERSION, RunStarted
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant, millis
from holdfast.domain.lineage import Ancestor, Place, continue_from, nest
from holdfast.domain.message import open_calls
from holdfast.domain.new_run import Base, Created, NewRun, body_digest
from holdfast.domain.run import HEAD_START, Run, RunStatus, queue_key
from holdfast.domain.thread import NewThread, ThreadStatus, check_open
from holdfast.domain.usage import NOTHING
from holdfast.store.encoding import dump, dump_optional
from holdfast.store.endings import Ending, end_trees
from holdfast.store.messages import check_new_ids, last_exchange, message_values
from holdfast.store.prepared import event_row, message_row
from holdfast.store.run_rows import run_by_key, run_row
from holdfast.store.spaces import hold_space
from holdfast.store.threads import add_thread, thread_row
from holdfast.store.transaction import Row, Transaction
from holdfast.store.values import inherit


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around the new run."""

    space_key: int
    thread: Row
    parent: Row | None
    base: Row | None
    base_sequence: int | None
    base_has_ended: bool
    """Whether the run may begin: its base is over, and its worker has let go."""
    place: Place


async def create_run(tx: Transaction, space: SpaceId, new: NewRun) -> Created:
    """Make the run, or find the one that was made under the same idempotency key."""
    in_space = await hold_space(tx, space)
    earlier = await _earlier(tx, in_space, new)
    if earlier is not None:
        return Created(run=earlier, replayed=True)
    frame = await _frame(tx, space, in_space, new)
    run = _run(tx, space, new, frame)
    run_key = await _add_run(tx, run, frame)
    await _add_input(tx, run_key, new, frame)
    await _add_first_event(tx, run_key, run)
    await _add_values(tx, run_key, new, frame)
    await _remember(tx, in_space, new, run_key)
    if isinstance(new.thread, NewThread):
        await tx.run("mark_made_for_run", thread_key=frame.thread["thread_key"], run_key=run_key)
    tx.wake(run=(space, run.id), queue=frame.base_has_ended)
    return Created(run=run)


async def _earlier(tx: Transaction, in_space: int, new: NewRun) -> Run | None:
    """Return the run of this key. A new key is taken first, so that others who have it wait here for this run."""
    if new.idempotency_key is None:
        return None
    key, digest = new.idempotency_key, body_digest(new)
    if await tx.one("take_idempotency_key", space_key=in_space, key=key, digest=digest) is not None:
        return None
    row = await tx.one("idempotency_key", space_key=in_space, key=key)
    assert row is not None
    if row["digest"] != digest:
        raise IdempotencyMismatch("this idempotency key was used with another body: choose another key")
    if row["run_key"] is None:
        raise Conflict("the run that was made under this idempotency key has been deleted")
    return await run_by_key(tx, row["run_key"])


async def _remember(tx: Transaction, in_space: int, new: NewRun, run_key: int) -> None:
    if new.idempotency_key is not None:
        await tx.run("settle_idempotency_key", space_key=in_space, key=new.idempotency_key, run_key=run_key)


async def _frame(tx: Transaction, space: SpaceId, in_space: int, new: NewRun) -> _Frame:
    thread = await _thread(tx, space, in_space, new)
    parent = None if new.parent_run_id is None else await run_row(tx, space, new.parent_run_id)
    start, base = await _start(tx, space, thread, new)
    locked = await tx.lock(runs=[key for key in (_key(parent), start.base_key) if key is not None])
    if parent is not None:
        await _check_parent(tx, parent, thread)
    if start.base_key is not None and (locked or _key(base) != start.base_key):
        base = await tx.one("base_run", run_key=start.base_key)
    if base is not None and start.base_sequence is not None:
        await _check_cut(tx, thread, base, start.base_sequence)
    return _Frame(
        space_key=in_space,
        thread=thread,
        parent=parent,
        base=None if start.base_key is None else base,
        base_sequence=start.base_sequence,
        base_has_ended=await _is_over(tx, base),
        place=continue_from(None if base is None else _ancestor(base)),
    )


async def _thread(tx: Transaction, space: SpaceId, in_space: int, new: NewRun) -> Row:
    if isinstance(new.thread, NewThread):
        return await add_thread(tx, in_space, new.thread)
    row = await thread_row(tx, space, new.thread)
    if await tx.lock(threads=[row["thread_key"]]):
        row = await thread_row(tx, space, new.thread)
    check_open(new.thread, ThreadStatus(row["status"]))
    return row


async def _check_parent(tx: Transaction, parent: Row, thread: Row) -> None:
    if parent["thread_key"] == thread["thread_key"]:
        raise Invalid("a sub-agent runs on a thread of its own", field="thread")
    nest(parent["nesting"])
    head = await tx.one("head", run_key=parent["run_key"])
    if head is None or RunStatus(head["status"]).terminal:
        raise Conflict(f"run `{parent['id']}` has ended: it can spawn nothing", run_id=parent["id"])


async def _start(tx: Transaction, space: SpaceId, thread: Row, new: NewRun) -> tuple[Start, Row | None]:
    """Find where the run begins: where it was told, or at the newest run of the thread, which is returned too."""
    if new.base is None:
        return Start(base_key=None), None
    if isinstance(new.base, Base):
        row = await run_row(tx, space, new.base.run_id)
        if row["thread_key"] != thread["thread_key"]:
            raise NotFound(f"there is no run `{new.base.run_id}` on this thread", id=new.base.run_id)
        return Start(base_key=row["run_key"], base_sequence=new.base.sequence), None
    newest = await tx.one("newest_run", thread_key=thread["thread_key"])
    if newest is None:
        return Start(base_key=None), None
    base = await tx.one("base_run", run_key=newest["run_key"])
    if base is None or (RunStatus(base["status"]).terminal and base["queued_at"] is not None):
        return Start(base_key=newest["run_key"]), base
    return await _start_on_branch(tx, newest["run_key"], new), None


async def _start_on_branch(tx: Transaction, newest: int, new: NewRun) -> Start:
    """Decide what becomes of a run whose branch is live."""
    branch = await tx.all("branch_keys", run_key=newest)
    if new.on_busy is not OnBusy.INTERRUPT and await tx.lock(runs=[row["run_key"] for row in branch]):
        branch = await tx.all("branch_keys", run_key=newest)
    if not branch:
        return Start(base_key=newest)
    start = place_on_busy(new.on_busy, [await _live_run(tx, row) for row in branch])
    if start.cancel:
        ending = Ending(to=RunStatus.CANCELLED, reason="interrupted by a new run", by=new.created_by)
        await end_trees(tx, start.cancel, ending)
    return start


async def _is_over(tx: Transaction, base: Row | None) -> bool:
    """Say whether a run on `base` may begin; a base that was ended before it began tells nothing of those above it."""
    while base is not None and base["queued_at"] is None and RunStatus(base["status"]).terminal:
        base = await tx.one("base_run", run_key=base["base_key"])
    return base is None or (RunStatus(base["status"]).terminal and base["lease_owner"] is None)


async def _live_run(tx: Transaction, row: Row) -> LiveRun:
    asked = await tx.all("open_interrupts_of_run", run_key=row["run_key"])
    return LiveRun(
        key=row["run_key"],
        id=row["id"],
        base_key=row["base_key"],
        base_sequence=row["base_sequence"],
        interrupts=[interrupt["id"] for interrupt in asked],
    )


async def _check_cut(tx: Transaction, thread: Row, base: Row, sequence: int) -> None:
    message = await tx.one("message_at", thread_key=thread["thread_key"], sequence=sequence)
    if message is None or message["run_key"] != base["run_key"]:
        raise Invalid(f"run `{base['id']}` has no message {sequence}", field="base_sequence")
    if open_calls(await last_exchange(tx, base["run_key"], cut=sequence)):
        raise Invalid(f"message {sequence} parts a tool call from its result", field="base_sequence")


def _run(tx: Transaction, space: SpaceId, new: NewRun, frame: _Frame) -> Run:
    thread, parent, now = frame.thread, frame.parent, instant(tx.now)
    run_id = new.id or RunId(tx.new_id("run"))
    return Run(
        id=run_id,
        thread_id=thread["id"],
        space_id=space,
        mode=new.mode,
        agent_type=new.agent_type or thread["agent_type"],
        model=new.model,
        status=RunStatus.QUEUED if frame.base_has_ended else RunStatus.PENDING,
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
        usage=NOTHING,
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
        queued_at=now if frame.base_has_ended else None,
        started_at=None,
        completed_at=None,
    )


async def _add_run(tx: Transaction, run: Run, frame: _Frame) -> int:
    parent = frame.parent
    row = await tx.one(
        "add_run",
        space_key=frame.space_key,
        thread_key=frame.thread["thread_key"],
        id=run.id,
        mode=run.mode.value,
        agent_type=run.agent_type,
        model=run.model,
        base_key=_key(frame.base),
        base_sequence=run.base_sequence,
        chain_depth=frame.place.depth,
        jump_key=frame.place.jump,
        parent_key=_key(parent),
        root_key=parent and (parent["root_key"] or parent["run_key"]),
        nesting=nest(parent["nesting"]) if parent else 0,
        input=dump_optional(run.input),
        priority=run.priority.value,
        tags=dump(run.tags),
        limits=dump(run.limits),
        idempotency_key=run.idempotency_key,
        created_by=run.created_by,
        now=tx.now,
    )
    assert row is not None
    run_key: int = row["run_key"]
    if await tx.one("add_run_id", space_key=frame.space_key, id=run.id, run_key=run_key) is None:
        raise IdTaken(f"the run id `{run.id}` was used before in this space", id=run.id)
    wait_until = None if run.wait_until is None else millis(run.wait_until)
    await tx.run(
        "add_head",
        run_key=run_key,
        status=run.status.value,
        head_start=HEAD_START[run.priority],
        queue_key=queue_key(run.priority, max(tx.now, wait_until or tx.now)),
        queued_at=tx.now if frame.base_has_ended else None,
        wait_until=wait_until,
        last_event_seq=run.last_event_seq,
    )
    return run_key


async def _add_input(tx: Transaction, run_key: int, new: NewRun, frame: _Frame) -> None:
    """Keep the input; it enters the conversation now if the base has ended, else when it ends."""
    thread_key = frame.thread["thread_key"]
    rows = [message_row(message) for message in new.messages]
    await check_new_ids(tx, thread_key, rows, base_key=_key(frame.base), cut=frame.base_sequence)
    entering = len(rows) if frame.base_has_ended else 0
    thread = await tx.one("begin_run_on_thread", thread_key=thread_key, count=entering, now=tx.now)
    assert thread is not None
    first = thread["next_sequence"] - entering
    values = [
        message_values(tx, row, thread_key=thread_key, run_key=run_key, sequence=first + index if entering else None)
        for index, row in enumerate(rows)
    ]
    await tx.many("add_messages", values)


async def _add_first_event(tx: Transaction, run_key: int, run: Run) -> None:
    started = RunStarted(
        timestamp=tx.now,
        thread_id=run.thread_id,
        run_id=run.id,
        protocol_version=PROTOCOL_VERSION,
        parent_run_id=UNSET if run.base_run_id is None else run.base_run_id,
    )
    await tx.many("add_events", [(run_key, 1, *event_row(started), tx.now)])


async def _add_values(tx: Transaction, run_key: int, new: NewRun, frame: _Frame) -> None:
    if frame.base is not None and frame.base_has_ended:
        await inherit(tx, run_key, base_key=frame.base["run_key"], base_sequence=frame.base_sequence)
    await tx.many("add_values", [(run_key, name, -1, dump(value)) for name, value in new.values.items()])


def _key(row: Row | None) -> int | None:
    return None if row is None else row["run_key"]


def _ancestor(base: Row) -> Ancestor:
    return Ancestor(
        key=base["run_key"],
        depth=base["chain_depth"],
        jump=base["jump"],
        jump_depth=base["jump_depth"],
        jump_of_jump=base["jump_of_jump"],
        jump_of_jump_depth=base["jump_of_jump_depth"],
    )
