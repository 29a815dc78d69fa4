from typing import Final

import msgspec
import pytest

from holdfast.domain.errors import AlreadyAnswered, Invalid
from holdfast.domain.ids import InterruptId, RunId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse, InterruptStatus, check_response

NOW: Final = Instant("2026-01-01T12:00:00.000Z")
LATER: Final = Instant("2026-01-01T12:00:00.001Z")
ASKED: Final = Interrupt(
    id=InterruptId("int_1"),
    run_id=RunId("run_1"),
    thread_id=ThreadId("thr_1"),
    root_run_id=RunId("run_1"),
    kind=InterruptKind.APPROVAL,
    status=InterruptStatus.OPEN,
    message="delete everything?",
    tool_call_id=None,
    arguments={"path": "/"},
    digest="d1",
    response_schema=None,
    default=None,
    metadata={},
    response=None,
    answered_by=None,
    answered_at=None,
    expires_at=LATER,
    created_at=NOW,
)
YES: Final = InterruptResponse(response=True, digest="d1", by="ann")


def test_an_open_interrupt_takes_an_answer_until_its_deadline() -> None:
    check_response(ASKED, YES, now=NOW)


@pytest.mark.parametrize("now", [LATER, Instant("2027-01-01T00:00:00.000Z")])
def test_an_answer_at_the_deadline_or_after_it_is_refused(now: Instant) -> None:
    with pytest.raises(AlreadyAnswered, match=f"`int_1` expired at {LATER}") as caught:
        check_response(ASKED, YES, now=now)
    assert caught.value.details == {"interrupt_id": "int_1"}


@pytest.mark.parametrize("status", [status for status in InterruptStatus if status is not InterruptStatus.OPEN])
def test_an_interrupt_that_is_not_open_takes_no_answer(status: InterruptStatus) -> None:
    with pytest.raises(AlreadyAnswered, match=f"`int_1` is {status}") as caught:
        check_response(msgspec.structs.replace(ASKED, status=status), YES, now=NOW)
    assert caught.value.details == {"interrupt_id": "int_1", "status": status.value}


def test_an_answer_for_other_arguments_is_refused() -> None:
    with pytest.raises(Invalid, match="of other arguments"):
        check_response(ASKED, InterruptResponse(response=True, digest="d2"), now=NOW)


def test_a_digest_is_no_answer_to_a_question_that_has_none() -> None:
    question = msgspec.structs.replace(ASKED, kind=InterruptKind.INPUT, digest=None)
    check_response(question, InterruptResponse(response="Paris"), now=NOW)
    with pytest.raises(Invalid, match="of other arguments"):
        check_response(question, YES, now=NOW)


def test_an_approval_without_the_digest_of_what_it_approves_is_refused() -> None:
    with pytest.raises(Invalid, match="needs the `digest`"):
        check_response(ASKED, InterruptResponse(response=True), now=NOW)
    check_response(msgspec.structs.replace(ASKED, digest=None), InterruptResponse(response=True), now=NOW)
