"""How a run comes into being, in one transaction."""

import msgspec
from msgspec import UNSET

from holdfast.domain.busy import LiveRun, OnBusy, Start, place_on_busy
from holdfast.domain.errors import Conflict, IdempotencyMismatch, IdTaken, Invalid, NotFound
from holdfast.domain.events import PROTOCOL_VERSION, RunStarted
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import millis
from holdfast.domain.lineage import Ancestor, Place, continue_from, nest
from holdfast.domain.message import open_calls
from holdfast.domain.new_run import Base, Created, NewRun, body_digest
from holdfast.domain.run import HEAD_START, Run, RunStatus, queue_key
from holdfast.domain.thread import NewThread, ThreadStatus, check_open
from holdfast.store.encoding import dump, dump_optional
from holdfast.store.endings import Ending, end_trees
from holdfast.store.messages import check_new_ids, last_exchange, message_values, take_sequences
from holdfast.store.prepared import event_row, message_row
from holdfast.store.run_rows import run_by_key, run_row
from holdfast.store.spaces import space_key
from holdfast.store.threads import add_thread, thread_row
from holdfast.store.transaction import Again, Row, Transaction
from holdfast.store.values import inherit


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around the new run."""

    space_key: int
    thread: Row
    parent: Row | None
    base: Row | None
    base_sequence: int | None
    place: Place

    @property
    def base_has_ended(self) -> bool:
        """Whether the run may begin: its base is over, and its worker has let go."""
        return self.base is None or (RunStatus(self.base["status"]).terminal and self.base["lease_owner"] is None)


async def create_run(tx: Transaction, space: SpaceId, new: NewRun) -> Created:
    """Make the run, or find the one that was made under the same idempotency key."""
    in_space = await space_key(tx, space)
    earlier = await _earlier(tx, in_space, new)
    if earlier is not None:
        return Created(run=earlier, replayed=True)
    frame = await _frame(tx, space, in_space, new)
    run_id = new.id or RunId(tx.new_id("run"))
    run_key = await _add_run(tx, run_id, new, frame)
    await _add_input(tx, run_key, new, frame)
    await _add_first_event(tx, run_key, run_id, frame)
    await _add_values(tx, run_key, new, frame)
    await _remember(tx, in_space, new, run_key)
    await tx.run("touch_thread", thread_key=frame.thread["thread_key"], now=tx.now)
    if isinstance(new.thread, NewThread):
        await tx.run("mark_made_for_run", thread_key=frame.thread["thread_key"], run_key=run_key)
    tx.wake(run=(space, run_id), queue=frame.base_has_ended)
    return Created(run=await run_by_key(tx, run_key))


async def _earlier(tx: Transaction, in_space: int, new: NewRun) -> Run | None:
    if new.idempotency_key is None:
        return None
    row = await tx.one("idempotency_key", space_key=in_space, key=new.idempotency_key)
    if row is None:
        return None
    if row["digest"] != body_digest(new):
        raise IdempotencyMismatch("this idempotency key was used with another body: choose another key")
    if row["run_key"] is None:
        raise Conflict("the run that was made under this idempotency key has been deleted")
    return await run_by_key(tx, row["run_key"])


async def _remember(tx: Transaction, in_space: int, new: NewRun, run_key: int) -> None:
    if new.idempotency_key is None:
        return
    key, digest = new.idempotency_key, body_digest(new)
    if await tx.one("add_idempotency_key", space_key=in_space, key=key, digest=digest, run_key=run_key) is None:
        raise Again  # somebody else was first: find theirs


async def _frame(tx: Transaction, space: SpaceId, in_space: int, new: NewRun) -> _Frame:
    thread = await _thread(tx, space, in_space, new)
    parent = None if new.parent_run_id is None else await run_row(tx, space, new.parent_run_id)
    start = await _start(tx, space, thread, new)
    await tx.lock(runs=[key for key in (_key(parent), start.base_key) if key is not None])
    if parent is not None:
        await _check_parent(tx, parent, thread)
    base = None if start.base_key is None else await tx.one("base_run", run_key=start.base_key)
    if base is not None and start.base_sequence is not None:
        await _check_cut(tx, thread, base, start.base_sequence)
    return _Frame(
        space_key=in_space,
        thread=thread,
        parent=parent,
        base=base,
        base_sequence=start.base_sequence,
        place=continue_from(None if base is None else _ancestor(base)),
    )


async def _thread(tx: Transaction, space: SpaceId, in_space: int, new: NewRun) -> Row:
    if isinstance(new.thread, NewThread):
        return await add_thread(tx, in_space, new.thread)
    await tx.lock(threads=[(await thread_row(tx, space, new.thread))["thread_key"]])
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


async def _start(tx: Transaction, space: SpaceId, thread: Row, new: NewRun) -> Start:
    """Find where the run begins: where it was told, or at the newest run of the thread."""
    if new.base is None:
        return Start(base_key=None)
    if isinstance(new.base, Base):
        row = await run_row(tx, space, new.base.run_id)
        if row["thread_key"] != thread["thread_key"]:
            raise NotFound(f"there is no run `{new.base.run_id}` on this thread", id=new.base.run_id)
        return Start(base_key=row["run_key"], base_sequence=new.base.sequence)
    newest = await tx.one("newest_run", thread_key=thread["thread_key"])
    if newest is None or newest["run_key"] is None:
        return Start(base_key=None)
    return await _start_on_branch(tx, newest["run_key"], new)


async def _start_on_branch(tx: Transaction, newest: int, new: NewRun) -> Start:
    branch = await tx.all("branch_keys", run_key=newest)
    if new.on_busy is not OnBusy.INTERRUPT:
        await tx.lock(runs=[row["run_key"] for row in branch])
        branch = await tx.all("branch_keys", run_key=newest)
    if not branch:
        return Start(base_key=newest)
    start = place_on_busy(new.on_busy, [await _live_run(tx, row) for row in branch])
    if start.cancel:
        ending = Ending(to=RunStatus.CANCELLED, reason="interrupted by a new run", by=new.created_by)
        await end_trees(tx, start.cancel, ending)
    return start


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


async def _add_run(tx: Transaction, run_id: RunId, new: NewRun, frame: _Frame) -> int:
    parent = frame.parent
    row = await tx.one(
        "add_run",
        space_key=frame.space_key,
        thread_key=frame.thread["thread_key"],
        id=run_id,
        mode=new.mode.value,
        agent_type=new.agent_type or frame.thread["agent_type"],
        model=new.model,
        base_key=_key(frame.base),
        base_sequence=frame.base_sequence,
        chain_depth=frame.place.depth,
        jump_key=frame.place.jump,
        parent_key=_key(parent),
        root_key=parent and (parent["root_key"] or parent["run_key"]),
        nesting=nest(parent["nesting"]) if parent else 0,
        input=dump_optional(new.input),
        priority=new.priority.value,
        tags=dump(new.tags),
        limits=dump(new.limits),
        idempotency_key=new.idempotency_key,
        created_by=new.created_by,
        now=tx.now,
    )
    assert row is not None
    run_key: int = row["run_key"]
    if await tx.one("add_run_id", space_key=frame.space_key, id=run_id, run_key=run_key) is None:
        raise IdTaken(f"the run id `{run_id}` was used before in this space", id=run_id)
    await tx.run(
        "add_head",
        run_key=run_key,
        status=(RunStatus.QUEUED if frame.base_has_ended else RunStatus.PENDING).value,
        head_start=HEAD_START[new.priority],
        queue_key=queue_key(new.priority, tx.now),
        queued_at=tx.now if frame.base_has_ended else None,
        wait_until=None if new.wait_until is None else millis(new.wait_until),
        last_event_seq=1,
    )
    return run_key


async def _add_input(tx: Transaction, run_key: int, new: NewRun, frame: _Frame) -> None:
    """Keep the input; it enters the conversation now if the base has ended, else when it ends."""
    if not new.messages:
        return
    rows = [message_row(message) for message in new.messages]
    thread_key = frame.thread["thread_key"]
    await check_new_ids(tx, thread_key, _key(frame.base), rows)
    first = await take_sequences(tx, thread_key, len(rows)) if frame.base_has_ended else None
    values = [
        message_values(
            tx, row, thread_key=thread_key, run_key=run_key, sequence=None if first is None else first + index
        )
        for index, row in enumerate(rows)
    ]
    await tx.many("add_messages", values)


async def _add_first_event(tx: Transaction, run_key: int, run_id: RunId, frame: _Frame) -> None:
    started = RunStarted(
        timestamp=tx.now,
        thread_id=frame.thread["id"],
        run_id=run_id,
        protocol_version=PROTOCOL_VERSION,
        parent_run_id=UNSET if frame.base is None else frame.base["id"],
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
