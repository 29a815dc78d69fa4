"""Task ids and run ids: the run `run_x` is the task `task_x`; any other id is the same on both sides."""

from typing import Final

from holdfast.domain.ids import RunId

_RUN: Final = "run_"
_TASK: Final = "task_"


def task_id_of(run: RunId) -> str:
    """Return the id of the task that a run is."""
    return _TASK + run.removeprefix(_RUN) if run.startswith(_RUN) else run


def run_id_of(name: str) -> RunId:
    """Return the id of the run that a task is; that of a run stays as it is."""
    return RunId(_RUN + name.removeprefix(_TASK) if name.startswith(_TASK) else name)
