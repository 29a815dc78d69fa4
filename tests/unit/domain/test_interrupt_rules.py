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


def test_an_open_interrupt_accepts_a_response_until_it_expires() -> None:
    check_response(ASKED, YES, now=NOW)


@pytest.mark.parametrize("now", [LATER, Instant("2027-01-01T00:00:00.000Z")])
def test_a_response_at_or_after_expiry_is_rejected(now: Instant) -> None:
    with pytest.raises(AlreadyAnswered, match=f"`int_1` expired at {LATER}") as caught:
        check_response(ASKED, YES, now=now)
    assert caught.value.details == {"interrupt_id": "int_1"}


@pytest.mark.parametrize("status", [status for status in InterruptStatus if status is not InterruptStatus.OPEN])
def test_an_interrupt_that_is_not_open_accepts_no_response(status: InterruptStatus) -> None:
    with pytest.raises(AlreadyAnswered, match=f"`int_1` is {status}") as caught:
        check_response(msgspec.structs.replace(ASKED, status=status), YES, now=NOW)
    assert caught.value.details == {"interrupt_id": "int_1", "status": status.value}


def test_a_response_for_other_arguments_is_rejected() -> None:
    with pytest.raises(Invalid, match="of other arguments"):
        check_response(ASKED, InterruptResponse(response=True, digest="d2"), now=NOW)


def test_a_digest_for_an_interrupt_without_one_is_rejected() -> None:
    question = msgspec.structs.replace(ASKED, kind=InterruptKind.INPUT, digest=None)
    check_response(question, InterruptResponse(response="Paris"), now=NOW)
    with pytest.raises(Invalid, match="of other arguments"):
        check_response(question, YES, now=NOW)


def test_an_approval_without_a_digest_is_rejected() -> None:
    with pytest.raises(Invalid, match="needs the `digest`"):
        check_response(ASKED, InterruptResponse(response=True), now=NOW)
    check_response(msgspec.structs.replace(ASKED, digest=None), InterruptResponse(response=True), now=NOW)
