"""The events that end what is open.

Each is to be noted before the next is asked for.
"""

from collections.abc import Iterator
from typing import TypeVar, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    ReasoningEnd,
    ReasoningMessageEnd,
    RunError,
    RunFinished,
    StepFinished,
    SubagentError,
    SubagentFinished,
    Terminal,
    TextMessageEnd,
    ToolCallEnd,
)
from holdfast.domain.events.input import Cancelled, Interrupt, Interrupted, Outcome, Succeeded
from holdfast.domain.events.subagents import SubagentSuspended
from holdfast.domain.ids import RunId
from holdfast.domain.stream.names import Names, Owner
from holdfast.domain.stream.state import State

Id = TypeVar("Id", bound=str)


def thought_ends(state: State, *, owner: Owner | None = None) -> Iterator[Event]:
    """End the reasoning messages of `owner`, or all."""
    for name, tag in _open(state.thoughts, owner):
        yield ReasoningMessageEnd(message_id=name, subagent_run_id=tag)


def message_ends(state: State, *, owner: Owner | None = None) -> Iterator[Event]:
    """End the messages of `owner`, or all: what was said and what was thought."""
    yield from thought_ends(state, owner=owner)
    for name, tag in _open(state.texts, owner):
        yield TextMessageEnd(message_id=name, subagent_run_id=tag)


def span_ends(state: State, *, owner: Owner | None = None) -> Iterator[Event]:
    """End the reasoning spans of `owner`, or all."""
    for name, tag in _open(state.spans, owner):
        yield ReasoningEnd(message_id=name, subagent_run_id=tag)


def streamed_ends(state: State, *, owner: Owner | None = None) -> Iterator[Event]:
    """End whatever a model was streaming for `owner`, or for all."""
    yield from message_ends(state, owner=owner)
    yield from span_ends(state, owner=owner)
    for name, tag in _open(state.calls, owner):
        yield ToolCallEnd(tool_call_id=name, subagent_run_id=tag)


def work_ends(state: State, *, owner: Owner | None = None) -> Iterator[Event]:
    """End whatever `owner` has open, or all of them, but no sub-agent."""
    yield from streamed_ends(state, owner=owner)
    for tag, name in list(state.steps):
        if owner is None or tag == owner:
            yield StepFinished(step_name=name, subagent_run_id=tag)


def subagent_ends(state: State, terminal: Terminal) -> Iterator[Event]:
    """End the sub-agents, the youngest first, in the way in which the segment ends."""
    for name in reversed(list(state.subagents.open)):
        yield _subagent_end(name, terminal)


def renamed(state: State, outcome: Outcome | UnsetType) -> Outcome | UnsetType:
    """Return `outcome` with the ids under which things were logged."""
    match outcome:
        case Succeeded(pending_tool_call_ids=list(pending)):
            return Succeeded(pending_tool_call_ids=[state.calls.logged(call) for call in pending])
        case Interrupted(interrupts=interrupts):
            return Interrupted(interrupts=[_renamed(state, interrupt) for interrupt in interrupts])
        case Succeeded() | Cancelled() | UnsetType():
            return outcome
        case _:
            assert_never(outcome)


def _renamed(state: State, interrupt: Interrupt) -> Interrupt:
    call, tag = interrupt.tool_call_id, interrupt.subagent_run_id
    return replace(
        interrupt,
        tool_call_id=UNSET if call is UNSET else state.calls.logged(call),
        subagent_run_id=UNSET if tag is UNSET else state.subagents.logged(tag),
    )


def _subagent_end(name: RunId, terminal: Terminal) -> Event:
    match terminal:
        case RunFinished(outcome=Interrupted(interrupts=interrupts)):
            asked = [interrupt.id for interrupt in interrupts if interrupt.subagent_run_id == name]
            return SubagentFinished(subagent_run_id=name, outcome=SubagentSuspended(interrupt_ids=asked or UNSET))
        case RunFinished(outcome=Succeeded(pending_tool_call_ids=[_, *_])):
            return SubagentFinished(subagent_run_id=name, outcome=SubagentSuspended())
        case RunFinished(outcome=Cancelled()):
            return SubagentError(subagent_run_id=name, message="the run was cancelled", code="CANCELLED")
        case RunFinished():
            return SubagentFinished(subagent_run_id=name)
        case RunError(message=message, code=code):
            return SubagentError(subagent_run_id=name, message=message, code=code)
        case _:
            assert_never(terminal)


def _open(names: Names[Id], owner: Owner | None) -> list[tuple[Id, Owner]]:
    return [(name, tag) for name, tag in names.open.items() if owner is None or tag == owner]
