"""Plans in SQL, as people read, list and edit them. The plan of a thread is the one of its newest run."""

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import Conflict
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.inbox import InboxKind, decode_edit
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.plan import Plan, ThreadTask, boundary_at_end, thread_tasks
from holdfast.domain.plan_edit import AddPlanItem, PlanEdit, apply_edit, check_plan_edit
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import ThreadStatus, check_accepts_runs
from holdfast.ports.runs import TaskFilter
from holdfast.store.encoding import dump_json, parse_cursor
from holdfast.store.inbox import put_inbox_item, to_inbox_item
from holdfast.store.messages import last_chain_messages
from holdfast.store.run_end import PLAN_VALUE, plan_with_edits, save_values
from holdfast.store.run_rows import run_row, run_row_by_key, to_run
from holdfast.store.spaces import space_key
from holdfast.store.threads import thread_row
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes

MAX_THREADS_PER_PAGE: Final = 200
"""Threads with a plan that one page reads at most."""
_MESSAGES_AT_END: Final = 200
"""Messages among which the newest assistant message is looked for."""


class SqlPlans(SqlPort):
    """Implements `Plans`."""

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId) -> Plan:
        """Return the plan of a run."""
        return await _current_plan(tx, await run_row(tx, space, run))

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        where: TaskFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[ThreadTask]:
        """Return plan items; the cursor is the thread and the position in its plan that the next page starts with."""
        check_page_size(limit)
        where = where or TaskFilter()
        listed_at, first_thread, position = parse_cursor(cursor, first_page=[10**18, 0, 0])
        await space_key(tx, space)
        if where.thread_id is not None:
            await thread_row(tx, space, where.thread_id)
        threads = await tx.all(
            "threads_with_tasks",
            space=space,
            thread_id=where.thread_id,
            listed_at=listed_at,
            thread_key=first_thread,
            limit=MAX_THREADS_PER_PAGE + 1,
        )
        items: list[ThreadTask] = []
        for index, thread in enumerate(threads):
            place = f"{thread['listed_at']}.{thread['thread_key']}"
            if index == MAX_THREADS_PER_PAGE:
                return Page(items=items, next_cursor=f"{place}.0")
            start = position if thread["thread_key"] == first_thread else 0
            for task in await _tasks_of_thread(tx, thread["thread_key"]):
                if task.position < start or not _matches(task, where):
                    continue
                if len(items) == limit:
                    return Page(items=items, next_cursor=f"{place}.{task.position}")
                items.append(task)
        return Page(items=items, next_cursor=None)

    @writes
    async def edit(
        self, tx: Transaction, space: SpaceId, thread: ThreadId, edit: PlanEdit, *, by: str | None = None
    ) -> ThreadTask:
        """Edit the plan of a thread's newest run."""
        check_plan_edit(edit)
        key = (await thread_row(tx, space, thread))["thread_key"]
        await tx.lock(threads=[key])  # so that no run is created on it meanwhile
        check_accepts_runs(thread, ThreadStatus((await thread_row(tx, space, thread))["status"]))
        run = await _lock_newest_run(tx, thread, key)
        if isinstance(edit, AddPlanItem):
            row = await tx.one("take_task_number", thread_key=key, step=tx.new_id("edit"))
            assert row is not None
            edit = replace(edit, task_id=row["number"], run_id=run["id"], agent_type=run["agent_type"])
        else:
            latest = await last_chain_messages(tx, run["run_key"], limit=_MESSAGES_AT_END)
            edit = replace(edit, at=boundary_at_end(latest), edited_at=instant(tx.now))
        plan = apply_edit(await _current_plan(tx, run), edit)
        data = dump_json({PLAN_VALUE: msgspec.to_builtins(edit)})
        if await put_inbox_item(tx, run["run_key"], kind=InboxKind.EDIT, data=data, created_by=by) is not None:
            tx.hints.add(run=(space, run["id"]), queue=True)
        else:  # the run has ended and reads no inbox: change its plan directly
            await save_values(tx, run["run_key"], {}, plan)
        return next(task for task in thread_tasks(plan, to_run(run)) if task.task_id == edit.task_id)


def _matches(task: ThreadTask, where: TaskFilter) -> bool:
    return (
        where.status in (None, task.status)
        and where.priority in (None, task.priority)
        and where.agent_type in (None, task.agent_type)
    )


async def _tasks_of_thread(tx: Transaction, thread_key: int) -> list[ThreadTask]:
    run = await tx.one("newest_run_of_thread", thread_key=thread_key)
    return [] if run is None else thread_tasks(await _current_plan(tx, run), to_run(run))


async def _lock_newest_run(tx: Transaction, thread: ThreadId, thread_key: int) -> Row:
    newest = await tx.one("newest_run_of_thread", thread_key=thread_key)
    if newest is None:
        raise Conflict(f"thread `{thread}` has no run yet, and so no plan: start a run first")
    await tx.lock(runs=[newest["run_key"]])
    return await run_row_by_key(tx, newest["run_key"])


async def _current_plan(tx: Transaction, run: Row) -> Plan:
    """Return the plan of a run, including the unread edits of an active run."""
    if RunStatus(run["status"]).terminal:
        return await plan_with_edits(tx, run, [])
    items = map(to_inbox_item, await tx.all("inbox_of_run", run_key=run["run_key"]))
    edits = filter(None, map(decode_edit, items))
    return await plan_with_edits(tx, run, [edit.plan for edit in edits if edit.plan is not None])
