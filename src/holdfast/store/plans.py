"""Plans in SQL, as people read and edit them."""

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import Conflict
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.inbox import InboxKind, decode_edit
from holdfast.domain.plan import Plan, PlanItem, find
from holdfast.domain.plan_edit import AddPlanItem, PlanEdit, apply_edit, check_plan_edit
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import ThreadStatus, check_accepts_runs
from holdfast.ports.runs import RunFilter
from holdfast.store.encoding import dump_json
from holdfast.store.endings import PLAN_VALUE, plan_with_edits, save_values
from holdfast.store.inbox import put_inbox_item, to_inbox_item
from holdfast.store.run_rows import list_runs, run_row
from holdfast.store.threads import thread_row
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes


class SqlPlans(SqlPort):
    """Implements `Plans`."""

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId) -> Plan:
        """Return the plan of a run."""
        return await _current_plan(tx, await run_row(tx, space, run))

    @writes
    async def edit(
        self, tx: Transaction, space: SpaceId, thread: ThreadId, edit: PlanEdit, *, by: str | None = None
    ) -> PlanItem:
        """Edit the plan of a thread's newest run."""
        check_plan_edit(edit)
        key = (await thread_row(tx, space, thread))["thread_key"]
        await tx.lock(threads=[key])  # so that no run is created on it meanwhile
        check_accepts_runs(thread, ThreadStatus((await thread_row(tx, space, thread))["status"]))
        run = await _lock_newest_run(tx, space, thread)
        if isinstance(edit, AddPlanItem):
            row = await tx.one("take_task_number", thread_key=key, step=tx.new_id("edit"))
            assert row is not None
            edit = replace(edit, task_id=row["number"])
        plan = apply_edit(await _current_plan(tx, run), edit)
        data = dump_json({PLAN_VALUE: msgspec.to_builtins(edit)})
        if await put_inbox_item(tx, run["run_key"], kind=InboxKind.EDIT, data=data, created_by=by) is not None:
            tx.wake(run=(space, run["id"]), queue=True)
        else:  # the run has ended and reads no inbox: change its plan directly
            await save_values(tx, run["run_key"], {}, plan)
        return find(plan, edit.task_id)


async def _lock_newest_run(tx: Transaction, space: SpaceId, thread: ThreadId) -> Row:
    runs = await list_runs(tx, space, RunFilter(thread_id=thread), limit=1, cursor=None)
    if not runs.items:
        raise Conflict(f"thread `{thread}` has no run yet, and so no plan: start a run first")
    newest = runs.items[0].id
    await tx.lock(runs=[(await run_row(tx, space, newest))["run_key"]])
    return await run_row(tx, space, newest)


async def _current_plan(tx: Transaction, run: Row) -> Plan:
    """Return the plan of a run, including the unread edits of an active run."""
    if RunStatus(run["status"]).terminal:
        return await plan_with_edits(tx, run, [])
    items = map(to_inbox_item, await tx.all("inbox_of_run", run_key=run["run_key"]))
    edits = filter(None, map(decode_edit, items))
    return await plan_with_edits(tx, run, [edit.plan for edit in edits if edit.plan is not None])
