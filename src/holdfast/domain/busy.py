"""What a new run does when the branch it continues has a live run."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.domain.errors import Busy, Waiting
from holdfast.domain.ids import InterruptId, RunId


class OnBusy(StrEnum):
    """The caller's wish."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    FORK = "fork"


class LiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """A live run of the branch."""

    key: int
    id: RunId
    base_key: int | None
    base_sequence: int | None
    interrupts: Sequence[InterruptId] = ()
    """The questions it waits for a person to answer."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where the new run begins, and what must be cancelled first."""

    base_key: int | None
    base_sequence: int | None = None
    cancel: Sequence[int] = ()


def place_on_busy(wish: OnBusy, branch: Sequence[LiveRun]) -> Start:
    """Decide where a run begins on a branch whose live runs are `branch`, the newest first."""
    newest, oldest = branch[0], branch[-1]
    match wish:
        case OnBusy.ENQUEUE:
            _check_nobody_is_asked(branch)
            return Start(base_key=newest.key)
        case OnBusy.REJECT:
            raise Busy(f"run `{oldest.id}` is not finished", run_id=oldest.id)
        case OnBusy.INTERRUPT:
            return Start(base_key=newest.key, cancel=[run.key for run in reversed(branch)])
        case OnBusy.FORK:
            return Start(base_key=oldest.base_key, base_sequence=oldest.base_sequence)


def _check_nobody_is_asked(branch: Sequence[LiveRun]) -> None:
    for run in branch:
        if run.interrupts:
            raise Waiting(
                f"run `{run.id}` waits for a person: answer its interrupts or cancel it",
                run_id=run.id,
                interrupts=list(run.interrupts),
            )
