"""How tasks are deleted: what is active is ended first, if that is wanted, and then let go of."""

import asyncio
from contextlib import suppress
from typing import Final

from holdfast.control.runs import RunControl
from holdfast.control.task_contract.errors import TaskActive
from holdfast.control.task_contract.ids import task_id_of
from holdfast.domain.errors import IllegalMove, RunActive
from holdfast.domain.run import Run
from holdfast.ports.runs import Runs

LETTING_GO: Final = 15.0
"""Seconds that the worker of a cancelled task has to let go of it before it is deleted."""
_AGAIN: Final = 0.02


class TaskDeletion:
    """Removes tasks with all that belongs to them."""

    def __init__(self, *, runs: Runs, control: RunControl) -> None:
        self._runs = runs
        self._control = control

    async def delete(self, run: Run, *, force: bool) -> None:
        """Remove a task and those that it spawned; `force` ends them first, without it they must have ended."""
        active = await self._active(run)
        if active and not force:
            raise _active(run, active[0])
        for each in active:
            with suppress(IllegalMove):  # it ended meanwhile
                await self._control.cancel(each.space_id, each.id, reason="deleted")
        try:
            async with asyncio.timeout(LETTING_GO):
                await self._forget(run)
        except TimeoutError as exc:
            task = task_id_of(run.id)
            raise TaskActive(f"task `{task}` has ended, but its worker holds it still: try again", id=task) from exc

    async def _active(self, run: Run) -> list[Run]:
        """Return the runs that must end: the topmost ones, because all below them end with them."""
        if not run.status.terminal:
            return [run]
        children = await self._runs.children(run.space_id, run.id)
        return [active for child in children for active in await self._active(child)]

    async def _forget(self, run: Run) -> None:
        """Delete a run that has ended, once its worker has let go."""
        while True:
            with suppress(RunActive):
                await self._runs.delete(run.space_id, run.id)
                return
            await asyncio.sleep(_AGAIN)


def _active(run: Run, active: Run) -> TaskActive:
    task, below = task_id_of(run.id), task_id_of(active.id)
    what = "it" if task == below else f"`{below}`"
    which = f"task `{task}`" if task == below else f"`{below}`, which task `{task}` spawned and which goes with it,"
    hint = f"cancel {what}, or delete the task with `force=true`"
    return TaskActive(f"{which} has not ended: {hint}", id=task, active=below)
