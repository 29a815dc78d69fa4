"""What a client answers: the questions of a run by `resume`, and its calls of client tools by tool messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.control.answers import check_response
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, NotFound, Waiting
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import ResumeEntry
from holdfast.domain.ids import InterruptId, RunId, ToolCallId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse

CANCELLED = "not answered: the person closed the question"


def answers_of(
    run: RunId, questions: Sequence[Interrupt], entries: Sequence[ResumeEntry]
) -> dict[InterruptId, InterruptResponse]:
    """Return the answers to the open questions of a run, each of which must be answered once.

    One that is not open raises `NotFound`, one that is left out `Waiting`, one that does not fit its schema `Invalid`.
    """
    asked = {each.id: each for each in questions if each.kind is not InterruptKind.CLIENT_TOOL}
    given = {entry.interrupt_id: entry for entry in entries}
    if len(given) != len(entries):
        raise Invalid("an interrupt is answered twice", field="resume")
    for name in given.keys() - asked.keys():
        raise NotFound(f"run `{run}` does not ask `{name}`, or not any more", id=name)
    if asked.keys() != given.keys():
        raise Waiting(f"run `{run}` asks more: answer all of its interrupts at once", run_id=run, interrupts=[*asked])
    return {name: _answer(asked[name], entry) for name, entry in given.items()}


def results_of(
    questions: Iterable[Interrupt], sent: Iterable[wire.ToolMessage]
) -> dict[InterruptId, InterruptResponse]:
    """Return the results of the client's own tools that a run waits for, of what a client sends."""
    calls = {each.tool_call_id: each.id for each in questions if each.kind is InterruptKind.CLIENT_TOOL}
    return {
        calls[each.tool_call_id]: InterruptResponse(response=_result(each))
        for each in sent
        if each.tool_call_id in calls
    }


def answered_calls(sent: Iterable[wire.AgUiMessage]) -> frozenset[ToolCallId]:
    """Return the calls that a client has results of."""
    return frozenset(each.tool_call_id for each in sent if isinstance(each, wire.ToolMessage))


def _answer(asked: Interrupt, entry: ResumeEntry) -> InterruptResponse:
    response = _response(asked, entry)
    if entry.status == "resolved":
        check_response(asked, response)
    return InterruptResponse(response=response, digest=asked.digest)


def _response(asked: Interrupt, entry: ResumeEntry) -> Json:
    payload = None if entry.payload is UNSET else entry.payload
    if asked.kind is not InterruptKind.APPROVAL:
        return CANCELLED if entry.status == "cancelled" else payload
    if entry.status == "cancelled":
        return {"decision": "deny", "reason": CANCELLED}
    return _decision(payload)


def _decision(payload: Json) -> Json:
    """Return what was decided about a call, also where it is said as the protocol's own examples say it."""
    if isinstance(payload, bool):
        return {"decision": "approve" if payload else "deny"}
    if isinstance(payload, dict) and isinstance(payload.get("approved"), bool):
        decided: dict[str, Any] = {"decision": "approve" if payload["approved"] else "deny"}
        named: Mapping[str, str] = {"editedArgs": "arguments", "reason": "reason"}
        return decided | {ours: payload[theirs] for theirs, ours in named.items() if theirs in payload}
    return payload


def _result(sent: wire.ToolMessage) -> Json:
    error = {} if sent.error is UNSET else {"error": sent.error}
    return {"content": msgspec.to_builtins(sent.content), **error}
