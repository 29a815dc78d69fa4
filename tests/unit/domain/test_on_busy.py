from typing import Final

import pytest

from holdfast.domain.errors import Busy, Waiting
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.placement import BranchRun, OnBusy, RunStart, resolve_on_busy

OLDEST: Final = BranchRun(key=3, id=RunId("run_3"), base_key=2, base_sequence=7)
NEWEST: Final = BranchRun(key=5, id=RunId("run_5"), base_key=3, base_sequence=None)
ASKING: Final = BranchRun(
    key=4, id=RunId("run_4"), base_key=3, base_sequence=None, interrupts=[InterruptId("int_1"), InterruptId("int_2")]
)
BRANCH: Final = [NEWEST, OLDEST]


def test_enqueue_continues_the_last_live_run_of_the_branch() -> None:
    assert resolve_on_busy(OnBusy.ENQUEUE, BRANCH) == RunStart(base_key=5)


@pytest.mark.parametrize("branch", [[ASKING], [ASKING, OLDEST], [NEWEST, ASKING, OLDEST]])
def test_enqueue_behind_a_run_that_waits_for_a_person_names_its_interrupts(branch: list[BranchRun]) -> None:
    with pytest.raises(Waiting, match="`run_4` waits for a person") as caught:
        resolve_on_busy(OnBusy.ENQUEUE, branch)
    assert caught.value.details == {"run_id": "run_4", "interrupts": ["int_1", "int_2"]}


@pytest.mark.parametrize("branch", [BRANCH, [ASKING]])
def test_reject_names_the_oldest_live_run(branch: list[BranchRun]) -> None:
    with pytest.raises(Busy) as caught:
        resolve_on_busy(OnBusy.REJECT, branch)
    assert caught.value.details == {"run_id": branch[-1].id}


@pytest.mark.parametrize("branch", [BRANCH, [NEWEST, ASKING, OLDEST], [ASKING]])
def test_interrupt_cancels_every_live_run_from_the_oldest_on_and_starts_after_the_last(branch: list[BranchRun]) -> None:
    start = resolve_on_busy(OnBusy.INTERRUPT, branch)
    assert start == RunStart(base_key=branch[0].key, cancel=sorted(run.key for run in branch))


@pytest.mark.parametrize("branch", [BRANCH, [NEWEST, ASKING, OLDEST]])
def test_fork_starts_where_the_oldest_live_run_did(branch: list[BranchRun]) -> None:
    assert resolve_on_busy(OnBusy.FORK, branch) == RunStart(base_key=2, base_sequence=7)


def test_fork_of_a_first_run_starts_a_new_root() -> None:
    root = BranchRun(key=1, id=RunId("run_1"), base_key=None, base_sequence=None)
    assert resolve_on_busy(OnBusy.FORK, [root]) == RunStart(base_key=None)
