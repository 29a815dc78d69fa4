"""Rules for sub-agents: each starts once, under an id that is never used again, and ends once."""

from collections.abc import Iterator
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import Event, SubagentError, SubagentFinished, SubagentStarted
from holdfast.domain.events.subagents import SubagentEvent
from holdfast.domain.ids import RunId
from holdfast.domain.stream.closing import work_ends
from holdfast.domain.stream.state import State


def subagent(state: State, event: SubagentEvent) -> Iterator[Event]:
    """Return what to log for `event`."""
    match event:
        case SubagentStarted():
            if not state.subagents.is_open(event.subagent_run_id):
                yield _opener(state, event)
        case SubagentFinished() | SubagentError():
            name = state.subagents.logged(event.subagent_run_id)
            if name in state.subagents.open:
                yield from work_ends(state, owner=name)
                yield replace(event, subagent_run_id=name)
        case _:
            assert_never(event)


def _opener(state: State, event: SubagentStarted) -> SubagentStarted:
    call, message = event.parent_tool_call_id, event.parent_message_id
    return replace(
        event,
        subagent_run_id=_name(state, event.subagent_run_id),
        parent_subagent_run_id=state.tag(event.parent_subagent_run_id),
        parent_tool_call_id=UNSET if call is UNSET else state.calls.logged(call),
        parent_message_id=UNSET if message is UNSET else state.texts.logged(message),
    )


def _name(state: State, said: RunId) -> RunId:
    # One that was suspended has not ended: it may go on in a later segment, as itself.
    logged = state.subagents.logged(said)
    if logged in state.suspended and logged not in state.segment.subagents:
        return logged
    return state.subagents.unused(said)
