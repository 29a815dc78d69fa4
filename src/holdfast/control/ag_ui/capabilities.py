"""What a client may expect of an agent, in the words of the protocol. What is absent is not known."""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.agent import Agent

_DELEGATING: Final = frozenset({"agent_message", "agent_send", "agent_spawn", "task_create", "task_spawn"})


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Identity(_Part, frozen=True, kw_only=True):
    """Who it is."""

    name: str
    type: str = "holdfast"
    description: str


class Transport(_Part, frozen=True, kw_only=True):
    """How it is reached."""

    streaming: bool = True
    resumable: bool = True


class Tools(_Part, frozen=True, kw_only=True):
    """Which tools it can call."""

    supported: bool = True
    parallel_calls: bool = True
    client_provided: bool = True


class State(_Part, frozen=True, kw_only=True):
    """What it keeps."""

    snapshots: bool = True
    deltas: bool = False
    persistent_state: bool = True


class MultiAgent(_Part, frozen=True, kw_only=True):
    """Whether it has others work for it."""

    supported: bool
    delegation: bool


class Reasoning(_Part, frozen=True, kw_only=True):
    """Whether it tells what it thinks."""

    supported: bool
    streaming: bool


class Execution(_Part, frozen=True, kw_only=True):
    """How far a run may go."""

    max_iterations: int | UnsetType = UNSET
    max_execution_time: int | UnsetType = UNSET
    """In milliseconds."""


class HumanInTheLoop(_Part, frozen=True, kw_only=True):
    """What people can do while it works."""

    supported: bool = True
    approvals: bool = True
    interventions: bool = True
    interrupts: bool = True
    approve_with_edits: bool = True


class Capabilities(_Part, frozen=True, kw_only=True):
    """Everything that is known."""

    identity: Identity
    transport: Transport = Transport()
    tools: Tools = Tools()
    state: State = State()
    multi_agent: MultiAgent
    reasoning: Reasoning
    execution: Execution
    human_in_the_loop: HumanInTheLoop = HumanInTheLoop()


def capabilities_of(agent: Agent) -> Capabilities:
    """Return what a client may expect of an agent."""
    delegates, thinks, limits = not _DELEGATING.isdisjoint(agent.tools), agent.thinking is not None, agent.limits
    seconds = limits.max_duration_seconds
    return Capabilities(
        identity=Identity(name=agent.name, description=agent.description),
        multi_agent=MultiAgent(supported=delegates, delegation=delegates),
        reasoning=Reasoning(supported=thinks, streaming=thinks),
        execution=Execution(
            max_iterations=UNSET if limits.max_iterations is None else limits.max_iterations,
            max_execution_time=UNSET if seconds is None else round(seconds * 1000),
        ),
    )
