"""AG-UI requests in domain terms: the new run, the client's state, and its responses to open interrupts.

A client responds to interrupts with `resume`, and to calls of its own tools with tool messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.ag_ui.messages import AgUiInputMessage, BranchPoint, context_message, to_new_message
from holdfast.control.runs import check_response
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, NotFound, Waiting
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import ResumeEntry, RunAgentInput
from holdfast.domain.ids import InterruptId, RunId, ThreadId, ToolCallId, check_client_id
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import NewThread
from holdfast.tools.client_tools import CLIENT_TOOLS_VALUE as CLIENT_TOOLS
from holdfast.tools.client_tools import client_tool_spec, client_tools_value


def check_client_ids(request: RunAgentInput) -> None:
    """Raise unless a client may choose the ids that it does."""
    check_client_id(request.thread_id, field="threadId")
    check_client_id(request.run_id, field="runId")
    if run_id_of(request.run_id) != request.run_id:
        raise Invalid(f"`{request.run_id}` would be the name of a task: choose another id", field="runId")


def to_new_run(
    request: RunAgentInput,
    branch_point: BranchPoint,
    thread: ThreadId | NewThread,
    *,
    agent: str | None,
    base: RunBase | None | UnsetType,
) -> NewRun:
    """Return the run that a client asks for at a place."""
    forks = branch_point.sequence is not None or bool(branch_point.revised_ids)
    return NewRun(
        thread=thread,
        messages=_input_messages(request, branch_point),
        id=request.run_id,
        agent_type=agent,
        base=base,
        values=_run_values(request, forks=forks),
    )


def _input_messages(asked: RunAgentInput, place: BranchPoint) -> list[NewMessage]:
    context = [] if asked.context is UNSET or not asked.context else [context_message(asked.context)]
    said = [each for each in place.new_messages if isinstance(each, AgUiInputMessage)]
    return [
        *context,
        *(to_new_message(each, revises=each.id if each.id in place.revised_ids else None) for each in said),
    ]


def _run_values(asked: RunAgentInput, *, forks: bool) -> dict[str, Json]:
    """Return what a client gives to a run beside messages. A fork has the state that there was where it begins."""
    values: dict[str, Json] = {}
    if client_state(asked) and not forks:
        values["state"] = asked.state
    if asked.tools is not UNSET and asked.tools:
        specs = [
            client_tool_spec(tool.name, tool.description, None if tool.parameters is UNSET else tool.parameters)
            for tool in asked.tools
        ]
        values[CLIENT_TOOLS] = client_tools_value(asked.run_id, specs)
    return values


def client_state(request: RunAgentInput) -> Json:
    """Return the state that a client has; nothing is the same as an empty one."""
    return {} if request.state is UNSET else request.state or {}


def changed_state(request: RunAgentInput, values: Mapping[str, Json]) -> Json | UnsetType:
    """Return the state among the values of a run, unless it is the one that the client has."""
    state = values.get("state") or {}
    return UNSET if state == client_state(request) else state


def may_create_thread(request: RunAgentInput) -> bool:
    """Say whether a client may begin a thread so: it goes on with no run, and answers none."""
    return requested_base(request) is None and (request.resume is UNSET or not request.resume)


def requested_base(request: RunAgentInput) -> RunId | None:
    """Return the run that a client wants to continue, if it says so."""
    if request.parent_run_id is not UNSET:
        return request.parent_run_id
    props = request.forwarded_props
    named = props.get("baseRunId") if isinstance(props, dict) else None
    if named is not None and not isinstance(named, str):
        raise Invalid("`forwardedProps.baseRunId` must be the id of a run", field="forwardedProps.baseRunId")
    return named if named is None else RunId(named)


def trailing_tool_messages(messages: Sequence[wire.AgUiMessage]) -> list[wire.ToolMessage]:
    """Return the results of tools that a client sends after the last assistant message."""
    results: list[wire.ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, wire.AssistantMessage):
            break
        if isinstance(message, wire.ToolMessage):
            results.append(message)
    return results


CANCELLED_RESPONSE = "not answered: the person closed the question"


def resume_responses(
    run: RunId, interrupts: Sequence[Interrupt], entries: Sequence[ResumeEntry]
) -> dict[InterruptId, InterruptResponse]:
    """Return the answers to the open questions of a run, each of which must be answered once.

    One that is not open raises `NotFound`, one that is left out `Waiting`, one that does not fit its schema `Invalid`.
    """
    asked = {each.id: each for each in interrupts if each.kind is not InterruptKind.CLIENT_TOOL}
    given = {entry.interrupt_id: entry for entry in entries}
    if len(given) != len(entries):
        raise Invalid("an interrupt is answered twice", field="resume")
    for name in given.keys() - asked.keys():
        raise NotFound(f"run `{run}` does not ask `{name}`, or not any more", id=name)
    if asked.keys() != given.keys():
        raise Waiting(f"run `{run}` asks more: answer all of its interrupts at once", run_id=run, interrupts=[*asked])
    return {name: _interrupt_response(asked[name], entry) for name, entry in given.items()}


def client_tool_responses(
    interrupts: Iterable[Interrupt], sent: Iterable[wire.ToolMessage]
) -> dict[InterruptId, InterruptResponse]:
    """Return the results of the client's own tools that a run waits for, of what a client sends."""
    calls = {each.tool_call_id: each.id for each in interrupts if each.kind is InterruptKind.CLIENT_TOOL}
    return {
        calls[each.tool_call_id]: InterruptResponse(response=_tool_result(each))
        for each in sent
        if each.tool_call_id in calls
    }


def answered_call_ids(sent: Iterable[wire.AgUiMessage]) -> frozenset[ToolCallId]:
    """Return the calls that a client has results of."""
    return frozenset(each.tool_call_id for each in sent if isinstance(each, wire.ToolMessage))


def _interrupt_response(asked: Interrupt, entry: ResumeEntry) -> InterruptResponse:
    response = _response_value(asked, entry)
    if entry.status == "resolved":
        check_response(asked, response)
    return InterruptResponse(response=response, digest=asked.digest)


def _response_value(asked: Interrupt, entry: ResumeEntry) -> Json:
    payload = None if entry.payload is UNSET else entry.payload
    if asked.kind is not InterruptKind.APPROVAL:
        return CANCELLED_RESPONSE if entry.status == "cancelled" else payload
    if entry.status == "cancelled":
        return {"decision": "deny", "reason": CANCELLED_RESPONSE}
    return _approval_decision(payload)


def _approval_decision(payload: Json) -> Json:
    """Return what was decided about a call, also where it is said as the protocol's own examples say it."""
    if isinstance(payload, bool):
        return {"decision": "approve" if payload else "deny"}
    if isinstance(payload, dict) and isinstance(payload.get("approved"), bool):
        decided: dict[str, Any] = {"decision": "approve" if payload["approved"] else "deny"}
        named: Mapping[str, str] = {"editedArgs": "arguments", "reason": "reason"}
        return decided | {ours: payload[theirs] for theirs, ours in named.items() if theirs in payload}
    return payload


def _tool_result(sent: wire.ToolMessage) -> Json:
    error = {} if sent.error is UNSET else {"error": sent.error}
    return {"content": msgspec.to_builtins(sent.content), **error}
