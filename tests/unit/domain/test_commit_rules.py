from collections.abc import Sequence
from typing import Any, Final

import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.commit import Commit, check_commit
from holdfast.domain.errors import IllegalMove, Invalid
from holdfast.domain.ids import TimerId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.message import NewMessage
from holdfast.domain.run import VALUE_NAMES, Move, RunStatus
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.timer import NewTimer
from tests.builders import assistant, call, result, user
from tests.support.calls import a_lease

NOW: Final = Instant("2026-01-01T12:00:00.000Z")
QUESTION: Final = NewInterrupt(kind=InterruptKind.INPUT, message="where?")
LEASE: Final = a_lease()


def check(**fields: Any) -> None:
    check_commit(Commit(lease=LEASE, **fields))


def model_step(state: StepState, number: int = 1) -> Step:
    return Step(number=number, kind=StepKind.MODEL, name="m", key=f"run_1.{number}", state=state)


def tool_step(state: StepState, call_id: str = "a", number: int = 2) -> Step:
    return Step(
        number=number,
        kind=StepKind.TOOL,
        name="look",
        key=f"run_1.{number}",
        state=state,
        tool_call_id=ToolCallId(call_id),
    )


def test_a_commit_may_add_nothing() -> None:
    check()


def test_a_commit_may_add_everything_at_once() -> None:
    check(
        messages=[assistant("", call("a")), result("a")],
        steps=[model_step(StepState.DONE), tool_step(StepState.DONE)],
        values=dict.fromkeys(VALUE_NAMES, {}),
        consumed=[1, 2],
        interrupts=[QUESTION],
        artifacts=[NewArtifact(type=ArtifactType.DOC, title="notes", content="words")],
        timers=[NewTimer(kind="deadline", due_at=NOW, id=TimerId("t1"))],
        move=Move(to=RunStatus.WAITING, reason="person"),
    )


@pytest.mark.parametrize("state", [StepState.STARTED, StepState.FAILED, StepState.UNKNOWN])
def test_a_step_that_is_not_done_needs_no_message(state: StepState) -> None:
    check(steps=[model_step(state), tool_step(state)])


@pytest.mark.parametrize(
    ("step", "messages"),
    [
        (model_step(StepState.DONE), []),
        (model_step(StepState.DONE), [user("hi"), result("a")]),
        (tool_step(StepState.DONE), []),
        (tool_step(StepState.DONE), [assistant("", call("a"))]),
        (tool_step(StepState.DONE), [result("b")]),
    ],
)
def test_a_step_is_done_only_with_its_message_in_the_same_commit(step: Step, messages: Sequence[NewMessage]) -> None:
    with pytest.raises(Invalid, match=f"step {step.number} is done, but its message is not in the same commit"):
        check(steps=[step], messages=messages)


def test_a_step_is_named_once_in_a_commit() -> None:
    with pytest.raises(Invalid, match="`steps` names a step twice"):
        check(steps=[model_step(StepState.STARTED, number=4), tool_step(StepState.STARTED, number=4)])


def test_an_inbox_item_is_named_once_in_a_commit() -> None:
    with pytest.raises(Invalid, match="names an inbox item twice"):
        check(consumed=[1, 2, 1])


def test_an_unknown_run_value_is_rejected() -> None:
    with pytest.raises(Invalid, match=", ".join(sorted(VALUE_NAMES))):
        check(values={"state": {}, "mood": "fine"})


@pytest.mark.parametrize("move", [None, Move(to=RunStatus.QUEUED), Move(to=RunStatus.COMPLETED)])
def test_an_interrupt_requires_a_move_to_waiting(move: Move | None) -> None:
    with pytest.raises(Invalid, match="an interrupt requires a commit that moves the run to `waiting`"):
        check(interrupts=[QUESTION], move=move)


def test_a_move_that_a_worker_may_not_make_is_refused() -> None:
    with pytest.raises(IllegalMove):
        check(move=Move(to=RunStatus.PENDING))
    with pytest.raises(Invalid, match="cannot cancel its run"):
        check(move=Move(to=RunStatus.CANCELLED))


def test_message_ids_are_well_formed_and_chosen_once() -> None:
    with pytest.raises(Invalid, match="the same id"):
        check(messages=[assistant("a", id="m1"), assistant("b", id="m1")])


def test_an_invalid_artifact_is_rejected() -> None:
    with pytest.raises(Invalid, match="either `content` or `file_id`"):
        check(artifacts=[NewArtifact(type=ArtifactType.DOC, title="notes")])


@pytest.mark.parametrize(
    "timer",
    [
        NewTimer(kind="x" * 65, due_at=NOW),
        NewTimer(kind="a\x00b", due_at=NOW),
        NewTimer(kind="deadline", due_at=NOW, id=TimerId("no spaces")),
        NewTimer(kind="deadline", due_at=Instant("soon")),
    ],
)
def test_an_invalid_timer_is_rejected(timer: NewTimer) -> None:
    with pytest.raises(Invalid):
        check(timers=[timer])
