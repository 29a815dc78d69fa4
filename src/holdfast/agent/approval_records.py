"""Approval records: the interrupt that asks for approval, its response, and the stored decisions."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, ToolCallId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.message import ToolCall
from holdfast.domain.permission import APPROVALS_VALUE, PermissionDecision, call_digest
from holdfast.domain.tool import ToolSpec

APPROVAL_MESSAGE: Final = "The agent wants to call `{name}`. May it?"


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about one call."""

    why: str | None = None
    """What the model is told of a call that is refused; null where it may run."""
    arguments: dict[str, Json] | None = None
    """Those that a person approved instead of what it asked for."""
    folder: str | None = None
    """Where the shell was for which a command was decided on."""
    granted: list[str] | None = None
    """Rules that a person had written."""


class ApprovalState(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about the calls of one message. Values go over to other runs, but decisions do not."""

    run_id: RunId
    calls: dict[ToolCallId, ApprovalDecision] = {}


class ApprovalResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a person answers."""

    decision: Literal["approve", "deny", "always"]
    reason: str | None = None
    arguments: dict[str, Json] | None = None
    rules: list[str] | None = None


def load_decisions(values: Mapping[str, Json], run_id: RunId) -> dict[ToolCallId, ApprovalDecision]:
    """Return what was decided about calls of this run."""
    written = values.get(APPROVALS_VALUE)
    if written is None:
        return {}
    found = msgspec.convert(written, ApprovalState)
    return found.calls if found.run_id == run_id else {}


def approval_key(run_id: RunId, call: ToolCall, spec: ToolSpec | None) -> str:
    """Return the key under which a person is asked about a call; what a tool has become is part of the question."""
    change = f".{spec.changed.digest}" if spec is not None and spec.changed is not None else ""
    return f"{run_id}.{call.id}.approval{change}"


def approval_interrupt(
    run_id: RunId,
    call: ToolCall,
    spec: ToolSpec,
    decision: PermissionDecision,
    *,
    asking_agents: Sequence[str],
    offered_rules: Sequence[Sequence[str]],
    folder: str | None,
) -> NewInterrupt:
    """Return what a person is asked about a call: the answer holds for exactly this one.

    `asking` are the agents whose rules ask, for which one of the `offers` is written if it is always allowed.
    """
    change = None if spec.changed is None else spec.changed.description
    told = {
        "rule": decision.rule,
        "reason": decision.reason,
        "agent": decision.agent,
        "description": change,
        "folder": folder,
    }
    return NewInterrupt(
        kind=InterruptKind.APPROVAL,
        id=InterruptId(derived_id("int", key=approval_key(run_id, call, spec))),
        message=APPROVAL_MESSAGE.format(name=call.name),
        tool_call_id=call.id,
        arguments=call.arguments,
        digest=call_digest(call.name, call.arguments),
        response_schema=_response_schema(spec, offered_rules),
        metadata={
            "tool": call.name,
            "asking": asking_agents,
            "offers": offered_rules,
            **{key: said for key, said in told.items() if said is not None},
        },
    )


def _response_schema(spec: ToolSpec, offers: Sequence[Sequence[str]]) -> dict[str, Json]:
    properties: dict[str, Json] = {
        "decision": {"enum": ["approve", "deny", "always"] if offers else ["approve", "deny"]},
        "reason": {"type": "string", "description": "what the agent is told when it may not"},
        "arguments": {**spec.parameters, "description": "to approve the call with other arguments than it asks for"},
    }
    if offers:
        properties["rules"] = {
            "enum": [list(rules) for rules in offers],
            "description": "the rules to write, so that it is always allowed; the first of these unless one is chosen",
        }
    schema: dict[str, Json] = {"type": "object", "required": ["decision"], "properties": properties}
    # No rules were offered that allow what somebody has changed a call to.
    alone = {"if": {"properties": {"decision": {"const": "always"}}}, "then": {"properties": {"arguments": False}}}
    return {**schema, "additionalProperties": False, **(alone if offers else {})}
