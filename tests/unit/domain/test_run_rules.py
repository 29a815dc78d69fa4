"""The run state machine: every pair of statuses, and the moves of a worker."""

from itertools import product
from typing import Final

import pytest

from holdfast.domain.errors import IllegalMove, Invalid
from holdfast.domain.ids import RunId
from holdfast.domain.instant import Instant, Millis
from holdfast.domain.run import (
    ACTIVE_STATUSES,
    PRIORITY_HEAD_START_MS,
    Move,
    Priority,
    RunStatus,
    check_move,
    check_worker_move,
    queue_key,
)

RUN: Final = RunId("run_1")
PENDING, QUEUED, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED = RunStatus
PAIRS: Final = list(product(RunStatus, RunStatus))

# The arrows of the drawing in `domain/run.py`, and that any live run can be ended from outside.
LEGAL: Final = {
    (PENDING, QUEUED),
    (QUEUED, RUNNING),
    (RUNNING, COMPLETED),
    (RUNNING, WAITING),
    (RUNNING, QUEUED),
    (WAITING, QUEUED),
    *product((PENDING, QUEUED, RUNNING, WAITING), (FAILED, CANCELLED)),
}


@pytest.mark.parametrize(("at", "to"), [pair for pair in PAIRS if pair in LEGAL])
def test_a_run_may_make_every_legal_move(at: RunStatus, to: RunStatus) -> None:
    check_move(RUN, at, to)


@pytest.mark.parametrize(("at", "to"), [pair for pair in PAIRS if pair not in LEGAL])
def test_a_run_may_make_no_other_move(at: RunStatus, to: RunStatus) -> None:
    problem = f"{at} already" if at is to else f"{at}: it cannot become {to}"
    with pytest.raises(IllegalMove, match=f"run `run_1` is {problem}") as caught:
        check_move(RUN, at, to)
    assert caught.value.details == {"status": at.value, "to": to.value}


def test_a_terminal_status_never_changes() -> None:
    assert {status for status in RunStatus if status.terminal} == {COMPLETED, FAILED, CANCELLED}
    assert {PENDING, QUEUED, RUNNING, WAITING} == ACTIVE_STATUSES
    assert not any(at.terminal for at, _ in LEGAL)


@pytest.mark.parametrize("to", [to for at, to in sorted(LEGAL) if at is RUNNING and to is not CANCELLED])
def test_a_worker_may_make_every_move_of_a_running_run(to: RunStatus) -> None:
    check_worker_move(RUN, Move(to=to))


@pytest.mark.parametrize("to", [PENDING, RUNNING])
def test_a_worker_may_make_no_other_move(to: RunStatus) -> None:
    with pytest.raises(IllegalMove):
        check_worker_move(RUN, Move(to=to))


def test_a_worker_cannot_cancel_its_run() -> None:
    with pytest.raises(Invalid, match="use `end`"):
        check_worker_move(RUN, Move(to=CANCELLED))


@pytest.mark.parametrize("to", [WAITING, COMPLETED, FAILED])
def test_only_a_queued_run_may_have_wait_until(to: RunStatus) -> None:
    later = Instant("2030-01-01T00:00:00.000Z")
    check_worker_move(RUN, Move(to=QUEUED, wait_until=later))
    with pytest.raises(Invalid, match="`wait_until`"):
        check_worker_move(RUN, Move(to=to, wait_until=later))


def test_the_higher_priority_of_two_runs_is_claimed_first() -> None:
    at = Millis(1_000_000)
    assert sorted(Priority, key=lambda priority: queue_key(priority, at)) == [
        Priority.HIGH,
        Priority.NORMAL,
        Priority.LOW,
    ]


def test_a_low_priority_run_precedes_a_high_one_queued_two_minutes_later() -> None:
    later = Millis(1_000_000 + PRIORITY_HEAD_START_MS[Priority.HIGH] + 1)
    assert queue_key(Priority.LOW, Millis(1_000_000)) < queue_key(Priority.HIGH, later)
