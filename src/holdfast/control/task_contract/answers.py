"""How the message of a `respond` answers what a run asks."""

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from holdfast.control.answers import check_response
from holdfast.control.task_contract.errors import TaskInvalid
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.interrupt import Interrupt, InterruptKind


def answer_to(asked: Interrupt, message: str) -> Json:
    """Return the answer that a message is; one that the question does not take raises `TaskInvalid`."""
    refused = None
    for reading in _readings(asked, message):
        try:
            check_response(asked, reading)
        except Invalid as exc:
            refused = refused or exc
        else:
            return reading
    raise TaskInvalid(
        "the message is no answer to this question: `details.schema` says what is, as text or as JSON",
        field="message",
        schema=asked.response_schema,
    ) from refused


def _readings(asked: Interrupt, message: str) -> Iterator[Json]:
    """Yield what a message may mean: a decision, or the text itself and then the JSON that it is."""
    if asked.kind is InterruptKind.APPROVAL:
        yield _decision(message)
        return
    yield message
    with suppress(msgspec.DecodeError, RecursionError):
        yield msgspec.json.decode(message)


def _decision(message: str) -> Json:
    word, _, reason = (part.strip() for part in message.partition(":"))
    match word.lower():
        case "approve" if not reason:
            return {"decision": "approve"}
        case "deny":
            return {"decision": "deny", "reason": reason} if reason else {"decision": "deny"}
        case _:
            raise TaskInvalid("an approval is answered with `approve` or `deny: reason`", field="message")
