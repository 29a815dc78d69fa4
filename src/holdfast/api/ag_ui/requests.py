"""AG-UI requests in domain terms: the new run, the client's state, and its responses to open interrupts.

A client responds to interrupts with `resume`, and to calls of its own tools with tool messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.ag_ui.messages import AgUiInputMessage, BranchPoint, context_message, to_new_message
from holdfast.control.runs import check_response_schema
from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Invalid, NotFound, Waiting
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import ResumeEntry, RunAgentInput
from holdfast.domain.ids import InterruptId, RunId, ThreadId, check_client_id
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import NewThread
from holdfast.tools.client_tools import CLIENT_TOOLS_VALUE, client_tool_spec, client_tools_value

CANCELLED_RESPONSE: Final = "not answered: the person closed the question"


def check_client_ids(request: RunAgentInput) -> None:
    """Raise `Invalid` unless a client may choose these ids."""
    check_client_id(request.thread_id, field="threadId")
    check_client_id(request.run_id, field="runId")
    if run_id_of(request.run_id) != request.run_id:
        raise Invalid("a run id must not start with `task_`: choose another id", field="runId")


def to_new_run(
    request: RunAgentInput,
    branch_point: BranchPoint,
    thread: ThreadId | NewThread,
    *,
    agent: str | None,
    base: RunBase | None | UnsetType,
) -> NewRun:
    """Return the run that a request starts at a branch point. A fork keeps the state of its base."""
    messages = [context_message(request.context)] if request.context is not UNSET and request.context else []
    for message in branch_point.new_messages:
        if isinstance(message, AgUiInputMessage):
            revises = message.id if message.id in branch_point.revised_ids else None
            messages.append(to_new_message(message, revises=revises))
    values: dict[str, Json] = {}
    forks = branch_point.sequence is not None or bool(branch_point.revised_ids)
    if client_state(request) and not forks:
        values["state"] = request.state
    if request.tools is not UNSET and request.tools:
        specs = [
            client_tool_spec(tool.name, tool.description, None if tool.parameters is UNSET else tool.parameters)
            for tool in request.tools
        ]
        values[CLIENT_TOOLS_VALUE] = client_tools_value(request.run_id, specs)
    return NewRun(thread=thread, messages=messages, id=request.run_id, agent_type=agent, base=base, values=values)


def client_state(request: RunAgentInput) -> Json:
    """Return the client's state; an absent state is an empty one."""
    return {} if request.state is UNSET else request.state or {}


def changed_state(request: RunAgentInput, values: Mapping[str, Json]) -> Json | UnsetType:
    """Return the state among the values of a run, or unset if it equals the client's state."""
    state = values.get("state") or {}
    return UNSET if state == client_state(request) else state


def requested_base(request: RunAgentInput) -> RunId | None:
    """Return the base run that a request names."""
    if request.parent_run_id is not UNSET:
        return request.parent_run_id
    props = request.forwarded_props
    base = props.get("baseRunId") if isinstance(props, dict) else None
    if base is not None and not isinstance(base, str):
        raise Invalid("`forwardedProps.baseRunId` must be the id of a run", field="forwardedProps.baseRunId")
    return base if base is None else RunId(base)


def trailing_tool_messages(messages: Sequence[wire.AgUiMessage]) -> list[wire.ToolMessage]:
    """Return the tool messages after the last assistant message."""
    results: list[wire.ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, wire.AssistantMessage):
            break
        if isinstance(message, wire.ToolMessage):
            results.append(message)
    return results


async def resume_responses(
    run: RunId, interrupts: Sequence[Interrupt], entries: Sequence[ResumeEntry]
) -> dict[InterruptId, InterruptResponse]:
    """Return the responses to the open interrupts of a run; each of them needs exactly one.

    An entry for an interrupt that is not open raises `NotFound`, a missing one `Waiting`, one that does not fit the
    response schema `Invalid`.
    """
    open_interrupts = {each.id: each for each in interrupts if each.kind is not InterruptKind.CLIENT_TOOL}
    entry_by_id = {entry.interrupt_id: entry for entry in entries}
    if len(entry_by_id) != len(entries):
        raise Invalid("`resume` has two entries for one interrupt: send one", field="resume")
    for id in entry_by_id.keys() - open_interrupts.keys():
        raise NotFound(f"run `{run}` has no open interrupt `{id}`", id=id)
    if open_interrupts.keys() != entry_by_id.keys():
        raise Waiting(
            f"run `{run}` has more open interrupts: respond to all of them at once",
            run_id=run,
            interrupts=[*open_interrupts],
        )
    return {id: await _interrupt_response(open_interrupts[id], entry) for id, entry in entry_by_id.items()}


async def check_same_responses(answered: Iterable[tuple[Interrupt, ResumeEntry]]) -> None:
    """Raise `AlreadyAnswered` if an entry differs from the response that its interrupt has."""
    for interrupt, entry in answered:
        if (await _interrupt_response(interrupt, entry)).response != interrupt.response:
            raise AlreadyAnswered(
                f"interrupt `{interrupt.id}` has another response already: only the first is accepted",
                interrupt_id=interrupt.id,
            )


def client_tool_responses(
    interrupts: Iterable[Interrupt], results: Iterable[wire.ToolMessage]
) -> dict[InterruptId, InterruptResponse]:
    """Return the responses to the client tool calls that a run waits for, from the client's tool messages."""
    calls = {each.tool_call_id: each.id for each in interrupts if each.kind is InterruptKind.CLIENT_TOOL}
    responses = {}
    for result in results:
        if result.tool_call_id in calls:
            error = {} if result.error is UNSET else {"error": result.error}
            response = {"content": msgspec.to_builtins(result.content), **error}
            responses[calls[result.tool_call_id]] = InterruptResponse(response=response, message_id=result.id)
    return responses


async def _interrupt_response(interrupt: Interrupt, entry: ResumeEntry) -> InterruptResponse:
    is_approval = interrupt.kind is InterruptKind.APPROVAL
    if entry.status == "cancelled":
        denial = {"decision": "deny", "reason": CANCELLED_RESPONSE}
        return InterruptResponse(response=denial if is_approval else CANCELLED_RESPONSE, digest=interrupt.digest)
    payload = None if entry.payload is UNSET else entry.payload
    response = _approval_decision(payload) if is_approval else payload
    await check_response_schema(interrupt, response)
    return InterruptResponse(response=response, digest=interrupt.digest)


def _approval_decision(payload: Json) -> Json:
    """Return the decision about a tool call, also from the forms that the protocol's own examples use."""
    if isinstance(payload, bool):
        return {"decision": "approve" if payload else "deny"}
    if isinstance(payload, dict) and isinstance(payload.get("approved"), bool):
        decision: dict[str, Any] = {"decision": "approve" if payload["approved"] else "deny"}
        fields = {"editedArgs": "arguments", "reason": "reason"}
        return decision | {ours: payload[theirs] for theirs, ours in fields.items() if theirs in payload}
    return payload
