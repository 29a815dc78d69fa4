"""Agents that work for an agent, as seen in its own stream."""

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.events.event import AgUiEvent, Present
from holdfast.domain.ids import InterruptId, MessageId, RunId, ToolCallId


class SubagentSucceeded(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="success"):
    """The sub-agent is done."""


class SubagentSuspended(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="suspended"):
    """The sub-agent waits, and may go on in a later segment."""

    interrupt_ids: list[InterruptId] | UnsetType = UNSET


SubagentOutcome: TypeAlias = SubagentSucceeded | SubagentSuspended


class SubagentStarted(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_STARTED"):
    """A sub-agent begins; events tagged with its id are its work."""

    subagent_run_id: RunId
    name: str
    description: str | UnsetType = UNSET
    parent_subagent_run_id: RunId | UnsetType = UNSET
    parent_tool_call_id: ToolCallId | UnsetType = UNSET
    parent_message_id: MessageId | UnsetType = UNSET


class SubagentFinished(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_FINISHED"):
    """A sub-agent's part in this segment is over; no outcome means success."""

    subagent_run_id: RunId
    result: Present | UnsetType = UNSET
    outcome: SubagentOutcome | UnsetType = UNSET


class SubagentError(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_ERROR"):
    """A sub-agent failed; the run may go on."""

    subagent_run_id: RunId
    message: str
    code: str | UnsetType = UNSET


SubagentEvent: TypeAlias = SubagentStarted | SubagentFinished | SubagentError
