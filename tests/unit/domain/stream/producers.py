"""Hypothesis strategies of producers that emit any event at any time."""

from typing import Any, Final

from hypothesis import strategies as st
from msgspec import UNSET

from holdfast.domain.events import (
    ActivityDelta,
    ActivitySnapshot,
    Custom,
    Event,
    MessagesSnapshot,
    Raw,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    StateDelta,
    StateSnapshot,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    SubagentSucceeded,
    SubagentSuspended,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.messages import (
    ActivityMessage,
    AgUiInterrupt,
    AgUiToolCall,
    AssistantMessage,
    CancelledOutcome,
    FunctionCall,
    InterruptOutcome,
    ReasoningMessage,
    RunAgentInput,
    SuccessOutcome,
    UserMessage,
)
from holdfast.domain.ids import RunId

Strategy = st.SearchStrategy[Any]

_RUN_IDS: Final[dict[str, Strategy]] = {
    "thread_id": st.sampled_from(["t", "other"]),
    "run_id": st.sampled_from(["r", "r2"]),
}
deltas: Final = st.sampled_from(["", "α", "b", "cc"])


def producers(
    *, messages: list[str], calls: list[str], subagents: list[str], spans: list[str], restless: bool = True
) -> st.SearchStrategy[list[Event]]:
    """Return a strategy of the events of a producer with these ids; `restless` ones start and end sub-agents."""
    ids = {
        "message": st.sampled_from(messages),
        "call": st.sampled_from(calls),
        "subagent": st.sampled_from(subagents),
        "span": st.sampled_from(spans),
    }
    families = [_texts, _calls, _reasoning, _others, *([_subagents] if restless else [])]
    events = st.one_of([event for family in families for event in family(ids)])
    # Segments are long and full of sub-agents, so that events often meet something open.
    started = [SubagentStarted(subagent_run_id=RunId(name), name="helper") for name in subagents]
    opening = st.lists(_run_started(ids), max_size=1) | st.just(started)
    segment = st.tuples(opening, st.lists(events, min_size=6, max_size=20), _terminal(ids)).map(
        lambda parts: [*parts[0], *parts[1], parts[2]]
    )
    return st.lists(segment, min_size=1, max_size=2).map(lambda segments: sum(segments, list[Event]()))


def _maybe(strategy: Strategy) -> Strategy:
    return st.just(UNSET) | strategy


def _tagged(type_: type[Event], ids: dict[str, Strategy], **fields: Strategy) -> Strategy:
    tag = _maybe(ids["subagent"] | st.just("ghost"))
    return _event(type_, subagent_run_id=tag, **fields)


def _event(type_: type[Event], **fields: Strategy) -> Strategy:
    metadata = _maybe(st.just({"k": 1}))
    return st.builds(type_, timestamp=_maybe(st.just(7)), metadata=metadata, **fields)


def _history(ids: dict[str, Strategy]) -> Strategy:
    tag = _maybe(ids["subagent"])
    call = st.builds(AgUiToolCall, id=ids["call"], function=st.just(FunctionCall(name="f", arguments="")))
    calls = _maybe(st.lists(call, max_size=2))
    return st.lists(
        st.builds(UserMessage, id=ids["message"], content=deltas, subagent_run_id=tag)
        | st.builds(AssistantMessage, id=ids["message"], tool_calls=calls, subagent_run_id=tag)
        | st.builds(ReasoningMessage, id=ids["message"], content=deltas, subagent_run_id=tag)
        | st.builds(
            ActivityMessage,
            id=ids["message"],
            activity_type=deltas,
            content=st.just({}),
            subagent_run_id=tag,
        ),
        max_size=2,
    )


def _run_started(ids: dict[str, Strategy]) -> Strategy:
    run_input = st.builds(RunAgentInput, **_RUN_IDS, messages=_history(ids))
    return _event(RunStarted, **_RUN_IDS, input=_maybe(run_input), parent_run_id=_maybe(st.just("b")))


def _terminal(ids: dict[str, Strategy]) -> Strategy:
    interrupt = st.builds(AgUiInterrupt, id=st.just("i"), reason=st.just("why"), tool_call_id=_maybe(ids["call"]))
    outcome = (
        st.just(CancelledOutcome())
        | st.builds(SuccessOutcome, pending_tool_call_ids=_maybe(st.lists(ids["call"], max_size=2)))
        | st.builds(InterruptOutcome, interrupts=st.lists(interrupt, min_size=1, max_size=2))
    )
    return _event(RunFinished, **_RUN_IDS, outcome=_maybe(outcome)) | _event(RunErrorEvent, message=deltas)


def _texts(ids: dict[str, Strategy]) -> list[Strategy]:
    role = _maybe(st.sampled_from(["assistant", "user"]))
    return [
        _tagged(TextMessageStart, ids, message_id=ids["message"], role=role),
        _tagged(TextMessageContent, ids, message_id=ids["message"], delta=deltas),
        _tagged(TextMessageEnd, ids, message_id=ids["message"]),
        _tagged(TextMessageChunk, ids, message_id=_maybe(ids["message"]), role=role, delta=_maybe(deltas)),
    ]


def _calls(ids: dict[str, Strategy]) -> list[Strategy]:
    call, parent = ids["call"], _maybe(ids["message"])
    name = st.just("f")
    return [
        _tagged(ToolCallStart, ids, tool_call_id=call, tool_call_name=name, parent_message_id=parent),
        _tagged(ToolCallArgs, ids, tool_call_id=call, delta=deltas),
        _tagged(ToolCallEnd, ids, tool_call_id=call),
        _tagged(
            ToolCallChunk,
            ids,
            tool_call_id=_maybe(call),
            tool_call_name=_maybe(name),
            parent_message_id=parent,
            delta=_maybe(deltas),
        ),
        _tagged(ToolCallResult, ids, tool_call_id=call, message_id=ids["message"], content=deltas),
    ]


def _reasoning(ids: dict[str, Strategy]) -> list[Strategy]:
    span = ids["span"] | ids["message"]
    return [
        _tagged(ReasoningStart, ids, message_id=span),
        _tagged(ReasoningEnd, ids, message_id=span),
        _tagged(ReasoningMessageStart, ids, message_id=ids["message"]),
        _tagged(ReasoningMessageContent, ids, message_id=ids["message"], delta=deltas),
        _tagged(ReasoningMessageEnd, ids, message_id=ids["message"]),
        _tagged(ReasoningMessageChunk, ids, message_id=_maybe(ids["message"]), delta=_maybe(deltas)),
        _tagged(
            ReasoningEncryptedValue,
            ids,
            subtype=st.sampled_from(["message", "tool-call"]),
            entity_id=ids["message"] | ids["call"],
            encrypted_value=deltas,
        ),
    ]


def _subagents(ids: dict[str, Strategy]) -> list[Strategy]:
    name = ids["subagent"]
    outcome = _maybe(st.sampled_from([SubagentSucceeded(), SubagentSuspended()]))
    return [
        _event(
            SubagentStarted,
            subagent_run_id=name,
            name=st.just("helper"),
            parent_subagent_run_id=_maybe(name),
            parent_tool_call_id=_maybe(ids["call"]),
            parent_message_id=_maybe(ids["message"]),
        ),
        _event(SubagentFinished, subagent_run_id=name, outcome=outcome),
        _event(SubagentError, subagent_run_id=name, message=deltas),
    ]


def _others(ids: dict[str, Strategy]) -> list[Strategy]:
    step = st.sampled_from(["x", "y"])
    activity = {"message_id": ids["message"], "activity_type": deltas}
    replaces = _maybe(st.booleans())
    return [
        _tagged(StepStarted, ids, step_name=step),
        _tagged(StepFinished, ids, step_name=step),
        _tagged(StateSnapshot, ids, snapshot=st.none()),
        _tagged(StateDelta, ids, delta=st.just([])),
        _tagged(ActivitySnapshot, ids, **activity, content=st.just({}), replace=replaces),
        _tagged(ActivityDelta, ids, **activity, patch=st.just([])),
        _tagged(Raw, ids, event=st.none()),
        _tagged(Custom, ids, name=st.just("n"), value=st.none()),
        _event(MessagesSnapshot, messages=_history(ids)),
        _run_started(ids),
    ]


tidy: Final = producers(messages=["m", "n"], calls=["c", "d"], subagents=["s", "u"], spans=["p"])
steady: Final = producers(messages=["m", "n"], calls=["c", "d"], subagents=["s", "u"], spans=["p"], restless=False)
# Ids that look like generated ones, the same for all kinds.
twisted: Final = producers(
    messages=["a", "a-2", ""], calls=["a", "a-2", "a-2-2"], subagents=["a", "a-2"], spans=["a", "-2"]
)
