"""Conversion of task ids and run ids: the run `run_x` is the task `task_x`; any other id stays the same."""

from typing import Final

from holdfast.domain.ids import RunId

_RUN: Final = "run_"
_TASK: Final = "task_"


def task_id_of(run: RunId) -> str:
    """Return the task id of a run."""
    return _TASK + run.removeprefix(_RUN) if run.startswith(_RUN) else run


def run_id_of(name: str) -> RunId:
    """Return the run id of a task; a run id stays as it is."""
    return RunId(_RUN + name.removeprefix(_TASK) if name.startswith(_TASK) else name)
