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
    """The decision about one tool call."""

    why: str | None = None
    """The result that the model gets for a denied call; null if the call may run."""
    arguments: dict[str, Json] | None = None
    """The arguments that a person approved instead of the model's."""
    folder: str | None = None
    """The shell folder for which a command was decided."""
    granted: list[str] | None = None
    """The rules that the person granted."""


class ApprovalState(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions about the calls of one message. Runs inherit values, so it names the run that it applies to."""

    run_id: RunId
    calls: dict[ToolCallId, ApprovalDecision] = {}


class ApprovalResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A person's response to an approval interrupt."""

    decision: Literal["approve", "deny", "always"]
    reason: str | None = None
    arguments: dict[str, Json] | None = None
    rules: list[str] | None = None


def load_decisions(values: Mapping[str, Json], run_id: RunId) -> dict[ToolCallId, ApprovalDecision]:
    """Return the stored decisions about calls of this run."""
    stored = values.get(APPROVALS_VALUE)
    if stored is None:
        return {}
    state = msgspec.convert(stored, ApprovalState)
    return state.calls if state.run_id == run_id else {}


def approval_key(run_id: RunId, call: ToolCall, spec: ToolSpec | None) -> str:
    """Return the key of a call's approval interrupt; a tool that changes again needs a new approval."""
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
    """Return the interrupt that asks a person to approve exactly this call.

    The response "always" grants one of the `offered_rules` to each of the `asking_agents`.
    """
    optional = {
        "rule": decision.rule,
        "reason": decision.reason,
        "agent": decision.agent,
        "description": None if spec.changed is None else spec.changed.description,
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
            **{key: value for key, value in optional.items() if value is not None},
        },
    )


def _response_schema(spec: ToolSpec, offered_rules: Sequence[Sequence[str]]) -> dict[str, Json]:
    properties: dict[str, Json] = {
        "decision": {"enum": ["approve", "deny", "always"] if offered_rules else ["approve", "deny"]},
        "reason": {"type": "string", "description": "why the call is denied, for the agent"},
        "arguments": {**spec.parameters, "description": "arguments to approve instead of the requested ones"},
    }
    schema: dict[str, Json] = {"type": "object", "required": ["decision"], "properties": properties}
    if not offered_rules:
        return {**schema, "additionalProperties": False}
    properties["rules"] = {
        "enum": [list(rules) for rules in offered_rules],
        "description": "the rules to grant with `always`; the first of these by default",
    }
    # The offered rules allow the requested arguments, not edited ones.
    always = {"if": {"properties": {"decision": {"const": "always"}}}, "then": {"properties": {"arguments": False}}}
    return {**schema, "additionalProperties": False, **always}
