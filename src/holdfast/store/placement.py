"""The placement of a new run: its thread, its base run, its parent, and whether it may start now."""

from collections.abc import Sequence

import msgspec

from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.message import ToolCall
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.placement import (
    Ancestor,
    BranchRun,
    ChainPosition,
    OnBusy,
    RunStart,
    check_waits_for_nobody,
    child_nesting,
    next_chain_position,
    resolve_on_busy,
)
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread, ThreadStatus, check_accepts_runs
from holdfast.store.interrupts import open_interrupts_shown_by_run
from holdfast.store.messages import calls_cut_off_at
from holdfast.store.run_end import RunEnd, end_run_trees
from holdfast.store.run_rows import base_run, run_row
from holdfast.store.spaces import lock_space_shared
from holdfast.store.threads import add_threads
from holdfast.store.transaction import Row, Transaction


class RunPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a new run in its thread and chain."""

    space: SpaceId
    space_key: int
    thread: Row
    parent: Row | None = None
    base: Row | None = None
    base_sequence: int | None = None
    cut_off_calls: Sequence[ToolCall] = ()
    """Calls of the base whose results come after the base sequence."""
    may_start: bool
    """Whether the run may start: its base has ended, and no worker holds the base any more."""
    position: ChainPosition

    @property
    def thread_key(self) -> int:
        """The key of the thread."""
        return int(self.thread["thread_key"])


async def find_batch_placements(tx: Transaction, plain: Sequence[tuple[SpaceId, NewRun]]) -> list[RunPlacement | None]:
    """Find the placements of runs on different threads; `None` for a run that needs `find_placement`."""
    new = [(space, run.thread) for space, run in plain if isinstance(run.thread, NewThread)]
    spaces = {space: await lock_space_shared(tx, space) for space in sorted({space for space, _ in new})}
    new_threads = iter(await add_threads(tx, [(spaces[space], thread) for space, thread in new]))
    on_threads = {(space, run.thread): run for space, run in plain if isinstance(run.thread, str)}
    threads = await _lock_threads(tx, list(on_threads))
    newest = {name: row["newest_run"] for name, row in threads.items() if on_threads[name].base is not None}
    tips = {name: tip for name, tip in newest.items() if tip is not None}
    found = {row["run_key"]: row for row in await tx.many("base_runs", [(tip,) for tip in tips.values()])}
    bases = {name: found[tip] for name, tip in tips.items()}
    return [
        RunPlacement(
            space=space,
            space_key=spaces[space],
            thread=next(new_threads),
            may_start=True,
            position=next_chain_position(None),
        )
        if isinstance(run.thread, NewThread)
        else _placement_on_thread(space, threads.get((space, run.thread)), bases.get((space, run.thread)))
        for space, run in plain
    ]


async def _lock_threads(
    tx: Transaction, names: Sequence[tuple[SpaceId, ThreadId]]
) -> dict[tuple[SpaceId, ThreadId], Row]:
    await tx.lock_threads_by_name(names)
    return {(row["space_id"], row["id"]): row for row in await tx.many("threads_with_newest_run", names)}


def _placement_on_thread(space: SpaceId, thread: Row | None, base: Row | None) -> RunPlacement | None:
    """Return the placement of a run on an active thread, if its base started, has ended and has no worker."""
    if thread is None or thread["status"] != ThreadStatus.ACTIVE:
        return None
    if base is not None and not (_started_and_ended(base) and base["lease_owner"] is None):
        return None
    return RunPlacement(
        space=space,
        space_key=thread["space_key"],
        thread=thread,
        base=base,
        may_start=True,
        position=_position_after(base),
    )


def _started_and_ended(run: Row) -> bool:
    return RunStatus(run["status"]).terminal and run["queued_at"] is not None


async def find_placement(tx: Transaction, space: SpaceId, space_key: int, new: NewRun) -> RunPlacement:
    """Find the placement of any run."""
    thread = await _open_thread(tx, space, space_key, new)
    parent = None if new.parent_run_id is None else await run_row(tx, space, new.parent_run_id)
    start, base = await _find_start(tx, space, thread, new)
    locked = await tx.lock(runs=[key for key in (run_key_or_none(parent), start.base_key) if key is not None])
    if parent is not None:
        await _check_parent(tx, parent, thread)
    if start.base_key is not None and (locked or run_key_or_none(base) != start.base_key):
        base = await base_run(tx, start.base_key)
    if base is not None and isinstance(new.base, RunBase) and new.base.sequence is not None:
        # Any other base sequence is that of an existing run, and was checked when that run was created.
        await _check_base_sequence(tx, thread, base, new.base.sequence)
    cut_off_calls: Sequence[ToolCall] = ()
    if start.base_key is not None and start.base_sequence is not None:
        cut_off_calls = await calls_cut_off_at(tx, start.base_key, start.base_sequence)
    return RunPlacement(
        space=space,
        space_key=space_key,
        thread=thread,
        parent=parent,
        base=None if start.base_key is None else base,
        base_sequence=start.base_sequence,
        cut_off_calls=cut_off_calls,
        may_start=await _base_has_ended(tx, base),
        position=_position_after(base),
    )


async def _open_thread(tx: Transaction, space: SpaceId, space_key: int, new: NewRun) -> Row:
    if isinstance(new.thread, NewThread):
        (created,) = await add_threads(tx, [(space_key, new.thread)])
        return created
    found = await _lock_threads(tx, [(space, new.thread)])
    if not found:
        raise NotFound(f"there is no thread `{new.thread}`", id=new.thread)
    row = found[space, new.thread]
    check_accepts_runs(new.thread, ThreadStatus(row["status"]))
    return row


async def _check_parent(tx: Transaction, parent: Row, thread: Row) -> None:
    if parent["thread_key"] == thread["thread_key"]:
        raise Invalid("a sub-agent cannot run on its parent's thread: use another thread", field="thread")
    child_nesting(parent["nesting"])
    head = await tx.one("head", run_key=parent["run_key"])
    if head is None or RunStatus(head["status"]).terminal:
        raise Conflict(f"run `{parent['id']}` has ended: it cannot spawn runs", run_id=parent["id"])


async def _find_start(tx: Transaction, space: SpaceId, thread: Row, new: NewRun) -> tuple[RunStart, Row | None]:
    """Return where the run starts, and the row of its base if that is the newest run of the thread."""
    if new.base is None or isinstance(new.thread, NewThread):
        return RunStart(base_key=None), None
    if isinstance(new.base, RunBase):
        row = await run_row(tx, space, new.base.run_id)
        if row["thread_key"] != thread["thread_key"]:
            raise NotFound(f"there is no run `{new.base.run_id}` on this thread", id=new.base.run_id)
        check_waits_for_nobody(await _active_branch(tx, row["run_key"], lock=False))
        return RunStart(base_key=row["run_key"], base_sequence=new.base.sequence), None
    newest = thread["newest_run"]
    if newest is None:
        return RunStart(base_key=None), None
    base = await base_run(tx, newest)
    if base is None or _started_and_ended(base):
        return RunStart(base_key=newest), base
    return await _find_start_on_active_branch(tx, newest, new), None


async def _find_start_on_active_branch(tx: Transaction, newest: int, new: NewRun) -> RunStart:
    """Apply `on_busy` to a run whose branch has active runs."""
    active = await _active_branch(tx, newest, lock=new.on_busy is not OnBusy.INTERRUPT)
    if not active:
        return RunStart(base_key=newest)
    start = resolve_on_busy(new.on_busy, active)
    if start.cancel:
        end = RunEnd(to=RunStatus.CANCELLED, reason="interrupted by a new run", cancelled_by=new.created_by)
        await end_run_trees(tx, start.cancel, end)
    return start


async def _active_branch(tx: Transaction, run_key: int, *, lock: bool) -> list[BranchRun]:
    """Return the active runs of the branch that ends with a run, newest first."""
    branch = await tx.all("branch_keys", run_key=run_key)
    if lock and branch and await tx.lock(runs=[row["run_key"] for row in branch]):
        branch = await tx.all("branch_keys", run_key=run_key)
    return [
        BranchRun(
            key=row["run_key"],
            id=row["id"],
            base_key=row["base_key"],
            base_sequence=row["base_sequence"],
            interrupts=[interrupt.id for interrupt in await open_interrupts_shown_by_run(tx, row["run_key"])],
        )
        for row in branch
    ]


async def _base_has_ended(tx: Transaction, base: Row | None) -> bool:
    """Return whether a run on `base` may start; if the base was ended before it started, its own base counts."""
    while base is not None and base["queued_at"] is None and RunStatus(base["status"]).terminal:
        base = await base_run(tx, base["base_key"])
    return base is None or (RunStatus(base["status"]).terminal and base["lease_owner"] is None)


async def _check_base_sequence(tx: Transaction, thread: Row, base: Row, sequence: int) -> None:
    message = await tx.one("message_at", thread_key=thread["thread_key"], sequence=sequence)
    if message is None or message["run_key"] != base["run_key"]:
        raise Invalid(f"run `{base['id']}` has no message {sequence}", field="base_sequence")


def run_key_or_none(row: Row | None) -> int | None:
    """Return the key of a run, if there is one."""
    return None if row is None else row["run_key"]


def _position_after(base: Row | None) -> ChainPosition:
    if base is None:
        return next_chain_position(None)
    return next_chain_position(
        Ancestor(
            key=base["run_key"],
            depth=base["chain_depth"],
            jump=base["jump"],
            jump_depth=base["jump_depth"],
            jump_of_jump=base["jump_of_jump"],
            jump_of_jump_depth=base["jump_of_jump_depth"],
        )
    )
