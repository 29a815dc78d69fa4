"""The placement of a new run: its thread, its base run, its parent, and whether it may start now."""

from collections.abc import Sequence

import msgspec

from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.message import unanswered_calls
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.placement import (
    Ancestor,
    ChainPosition,
    LiveRun,
    OnBusy,
    RunStart,
    child_nesting,
    next_chain_position,
    resolve_on_busy,
)
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, ThreadStatus, check_accepts_runs
from holdfast.store.endings import RunEnd, end_run_trees
from holdfast.store.interrupts import open_interrupts_shown_by_run
from holdfast.store.messages import last_exchange
from holdfast.store.run_rows import base_run, run_row
from holdfast.store.spaces import lock_space_shared
from holdfast.store.threads import add_threads
from holdfast.store.transaction import Row, Transaction


class RunPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run begins."""

    space: SpaceId
    space_key: int
    thread: Row
    parent: Row | None = None
    base: Row | None = None
    base_sequence: int | None = None
    may_start: bool
    """Whether the run may begin: its base is over, and its worker has let go."""
    place: ChainPosition


async def find_batch_placements(tx: Transaction, plain: Sequence[tuple[SpaceId, NewRun]]) -> list[RunPlacement | None]:
    """Find where runs begin that continue different threads, or begin anew; `None` where one must look closer."""
    new = [(space, run.thread) for space, run in plain if isinstance(run.thread, NewThread)]
    spaces = {space: await lock_space_shared(tx, space) for space in sorted({space for space, _ in new})}
    begun = iter(await add_threads(tx, [(spaces[space], thread) for space, thread in new]))
    there = {(space, run.thread): run for space, run in plain if isinstance(run.thread, str)}
    threads = await _lock_threads(tx, list(there))
    going_on = {name: row["newest_run"] for name, row in threads.items() if there[name].base is not None}
    tips = {name: tip for name, tip in going_on.items() if tip is not None}
    found = {row["run_key"]: row for row in await tx.many("base_runs", [(tip,) for tip in tips.values()])}
    bases = {name: found[tip] for name, tip in tips.items()}
    return [
        _placement_on_new_thread(space, spaces[space], next(begun))
        if isinstance(run.thread, NewThread)
        else _placement_on_thread(space, threads.get((space, run.thread)), bases.get((space, run.thread)))
        for space, run in plain
    ]


async def _lock_threads(
    tx: Transaction, names: Sequence[tuple[SpaceId, ThreadId]]
) -> dict[tuple[SpaceId, ThreadId], Row]:
    await tx.lock_threads_by_name(names)
    return {(row["space_id"], row["id"]): row for row in await tx.many("threads_with_newest_run", names)}


def _placement_on_new_thread(space: SpaceId, space_key: int, thread: Row) -> RunPlacement:
    return RunPlacement(
        space=space, space_key=space_key, thread=thread, may_start=True, place=next_chain_position(None)
    )


def _placement_on_thread(space: SpaceId, thread: Row | None, base: Row | None) -> RunPlacement | None:
    """Return the frame of a run on an open thread, if what it goes on from is over and will stay so."""
    if thread is None or thread["status"] != ThreadStatus.ACTIVE:
        return None
    over = base is None or (_began_and_ended(base) and base["lease_owner"] is None)
    if not over:
        return None
    return RunPlacement(
        space=space,
        space_key=thread["space_key"],
        thread=thread,
        base=base,
        may_start=True,
        place=next_chain_position(None if base is None else _to_ancestor(base)),
    )


def _began_and_ended(run: Row) -> bool:
    return RunStatus(run["status"]).terminal and run["queued_at"] is not None


async def find_placement(tx: Transaction, space: SpaceId, in_space: int, new: NewRun) -> RunPlacement:
    """Find where any run begins, whatever it asks for."""
    thread = await _open_thread(tx, space, in_space, new)
    parent = None if new.parent_run_id is None else await run_row(tx, space, new.parent_run_id)
    start, base = await _find_start(tx, space, thread, new)
    locked = await tx.lock(runs=[key for key in (run_key_or_none(parent), start.base_key) if key is not None])
    if parent is not None:
        await _check_parent(tx, parent, thread)
    if start.base_key is not None and (locked or run_key_or_none(base) != start.base_key):
        base = await base_run(tx, start.base_key)
    if base is not None and isinstance(new.base, RunBase) and new.base.sequence is not None:
        await _check_cut(tx, thread, base, new.base.sequence)  # others begin where a run did: it was checked then
    return RunPlacement(
        space=space,
        space_key=in_space,
        thread=thread,
        parent=parent,
        base=None if start.base_key is None else base,
        base_sequence=start.base_sequence,
        may_start=await _base_has_ended(tx, base),
        place=next_chain_position(None if base is None else _to_ancestor(base)),
    )


async def _open_thread(tx: Transaction, space: SpaceId, in_space: int, new: NewRun) -> Row:
    if isinstance(new.thread, NewThread):
        (made,) = await add_threads(tx, [(in_space, new.thread)])
        return made
    found = await _lock_threads(tx, [(space, new.thread)])
    if not found:
        raise NotFound(f"there is no thread `{new.thread}`", id=new.thread)
    row = found[space, new.thread]
    check_accepts_runs(new.thread, ThreadStatus(row["status"]))
    return row


async def _check_parent(tx: Transaction, parent: Row, thread: Row) -> None:
    if parent["thread_key"] == thread["thread_key"]:
        raise Invalid("a sub-agent runs on a thread of its own", field="thread")
    child_nesting(parent["nesting"])
    head = await tx.one("head", run_key=parent["run_key"])
    if head is None or RunStatus(head["status"]).terminal:
        raise Conflict(f"run `{parent['id']}` has ended: it can spawn nothing", run_id=parent["id"])


async def _find_start(tx: Transaction, space: SpaceId, thread: Row, new: NewRun) -> tuple[RunStart, Row | None]:
    """Find where the run begins: where it was told, or at the newest run of the thread, which is returned too."""
    if new.base is None or isinstance(new.thread, NewThread):
        return RunStart(base_key=None), None
    if isinstance(new.base, RunBase):
        row = await run_row(tx, space, new.base.run_id)
        if row["thread_key"] != thread["thread_key"]:
            raise NotFound(f"there is no run `{new.base.run_id}` on this thread", id=new.base.run_id)
        return RunStart(base_key=row["run_key"], base_sequence=new.base.sequence), None
    newest = thread["newest_run"]
    if newest is None:
        return RunStart(base_key=None), None
    base = await base_run(tx, newest)
    if base is None or _began_and_ended(base):
        return RunStart(base_key=newest), base
    return await _find_start_on_live_branch(tx, newest, new), None


async def _find_start_on_live_branch(tx: Transaction, newest: int, new: NewRun) -> RunStart:
    """Decide what becomes of a run whose branch is live."""
    branch = await tx.all("branch_keys", run_key=newest)
    if new.on_busy is not OnBusy.INTERRUPT and await tx.lock(runs=[row["run_key"] for row in branch]):
        branch = await tx.all("branch_keys", run_key=newest)
    if not branch:
        return RunStart(base_key=newest)
    start = resolve_on_busy(new.on_busy, [await _to_live_run(tx, row) for row in branch])
    if start.cancel:
        ending = RunEnd(to=RunStatus.CANCELLED, reason="interrupted by a new run", by=new.created_by)
        await end_run_trees(tx, start.cancel, ending)
    return start


async def _base_has_ended(tx: Transaction, base: Row | None) -> bool:
    """Say whether a run on `base` may begin; a base that was ended before it began tells nothing of those above it."""
    while base is not None and base["queued_at"] is None and RunStatus(base["status"]).terminal:
        base = await base_run(tx, base["base_key"])
    return base is None or (RunStatus(base["status"]).terminal and base["lease_owner"] is None)


async def _to_live_run(tx: Transaction, row: Row) -> LiveRun:
    asked = await open_interrupts_shown_by_run(tx, row["run_key"])
    return LiveRun(
        key=row["run_key"],
        id=row["id"],
        base_key=row["base_key"],
        base_sequence=row["base_sequence"],
        interrupts=[interrupt.id for interrupt in asked],
    )


async def _check_cut(tx: Transaction, thread: Row, base: Row, sequence: int) -> None:
    message = await tx.one("message_at", thread_key=thread["thread_key"], sequence=sequence)
    if message is None or message["run_key"] != base["run_key"]:
        raise Invalid(f"run `{base['id']}` has no message {sequence}", field="base_sequence")
    if unanswered_calls(await last_exchange(tx, base["run_key"], cut=sequence)):
        raise Invalid(f"message {sequence} parts a tool call from its result", field="base_sequence")


def run_key_or_none(row: Row | None) -> int | None:
    """Return the key of a run, if there is one."""
    return None if row is None else row["run_key"]


def _to_ancestor(base: Row) -> Ancestor:
    return Ancestor(
        key=base["run_key"],
        depth=base["chain_depth"],
        jump=base["jump"],
        jump_depth=base["jump_depth"],
        jump_of_jump=base["jump_of_jump"],
        jump_of_jump_depth=base["jump_of_jump_depth"],
    )
