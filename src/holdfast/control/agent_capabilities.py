"""The capabilities of an agent, as AG-UI defines them; an absent field means unknown."""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.agent import Agent

_DELEGATION_TOOLS: Final = frozenset({"agent_message", "agent_send", "agent_spawn", "task_create", "task_spawn"})


class _CapabilityGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class IdentityCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Who it is."""

    name: str
    type: str = "holdfast"
    description: str


class TransportCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """How it is reached."""

    streaming: bool = True
    resumable: bool = True


class ToolsCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Which tools it can call."""

    supported: bool = True
    parallel_calls: bool = True
    client_provided: bool = True


class StateCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """What it keeps."""

    snapshots: bool = True
    deltas: bool = False
    persistent_state: bool = True


class MultiAgentCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Whether it has others work for it."""

    supported: bool
    delegation: bool


class ReasoningCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Whether it tells what it thinks."""

    supported: bool
    streaming: bool


class ExecutionCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """How far a run may go."""

    max_iterations: int | UnsetType = UNSET
    max_execution_time: int | UnsetType = UNSET
    """In milliseconds."""


class HumanInTheLoopCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """What people can do while it works."""

    supported: bool = True
    approvals: bool = True
    interventions: bool = True
    interrupts: bool = True
    approve_with_edits: bool = True


class AgentCapabilities(_CapabilityGroup, frozen=True, kw_only=True):
    """Everything that is known."""

    identity: IdentityCapabilities
    transport: TransportCapabilities = TransportCapabilities()
    tools: ToolsCapabilities = ToolsCapabilities()
    state: StateCapabilities = StateCapabilities()
    multi_agent: MultiAgentCapabilities
    reasoning: ReasoningCapabilities
    execution: ExecutionCapabilities
    human_in_the_loop: HumanInTheLoopCapabilities = HumanInTheLoopCapabilities()


def agent_capabilities(agent: Agent) -> AgentCapabilities:
    """Return what a client may expect of an agent."""
    delegates, thinks, limits = not _DELEGATION_TOOLS.isdisjoint(agent.tools), agent.thinking is not None, agent.limits
    seconds = limits.max_duration_seconds
    return AgentCapabilities(
        identity=IdentityCapabilities(name=agent.name, description=agent.description),
        multi_agent=MultiAgentCapabilities(supported=delegates, delegation=delegates),
        reasoning=ReasoningCapabilities(supported=thinks, streaming=thinks),
        execution=ExecutionCapabilities(
            max_iterations=UNSET if limits.max_iterations is None else limits.max_iterations,
            max_execution_time=UNSET if seconds is None else round(seconds * 1000),
        ),
    )
