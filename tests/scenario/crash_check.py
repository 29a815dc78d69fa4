"""Invariants of a play whose workers were killed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import unified_diff

import msgspec

from holdfast.domain.events import ToolCallResult, ToolCallStart
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.testing.stream_verifier import verify_stream
from tests.scenario.crash_history import Canonical, RunHistory, canonical, unknown_calls
from tests.support.counting_server import CountedCall


def check_play(
    history: RunHistory, undisturbed: RunHistory, calls: Sequence[CountedCall], *, streams: bool = True
) -> None:
    """Assert that a play ended like an undisturbed one, except for unknown outcomes.

    If many runs open interrupts at once, timing decides which interrupts a segment ends with: pass `streams=False`, as
    their streams differ.
    """
    for each in history.all():
        assert each.run.status is RunStatus.COMPLETED, (each.run.id, each.run.status, each.run.error)
        check_transcript(each)
        check_steps(each)
        verify_stream(each.events)
    check_calls(history, calls)
    assert history.run.usage.total_tokens >= undisturbed.run.usage.total_tokens, "a lost call is charged too"
    unknown = unknown_calls(history)
    actual, expected = (canonical(each, unknown=unknown, streams=streams) for each in (history, undisturbed))
    _assert_equal(actual, expected)


def check_transcript(history: RunHistory) -> None:
    """Assert that every call has exactly one later result, and that the stream has the same calls."""
    call_ids = [call.id for message in history.messages for call in message.tool_calls]
    result_ids = [message.tool_call_id for message in history.messages if message.role is Role.TOOL]
    assert sorted(call_ids) == sorted(str(call) for call in result_ids)
    open_calls: set[str] = set()
    for message in history.messages:
        if message.role is Role.TOOL:
            open_calls.remove(str(message.tool_call_id))
        else:
            assert not open_calls, "there is a message between a call and its result"
            open_calls |= {call.id for call in message.tool_calls}
    streamed = {event.tool_call_id for event in history.events if isinstance(event, ToolCallStart)}
    assert set(call_ids) <= streamed, "the stream has other ids for these calls"
    results = [event.tool_call_id for event in history.events if isinstance(event, ToolCallResult)]
    assert sorted(results) == sorted(call_ids)
    sequences = [message.sequence for message in history.messages]
    assert sequences == sorted(set(sequences))  # type: ignore[type-var]


def check_steps(history: RunHistory) -> None:
    """Assert that no step is lost: each model response and each tool call has its step."""
    responses = sum(message.role is Role.ASSISTANT for message in history.messages)
    model_steps = [step for step in history.steps if step.kind is StepKind.MODEL and step.state is StepState.DONE]
    assert len(model_steps) == responses
    assert all(step.state.settled for step in history.steps)
    last_step = {step.tool_call_id: step for step in history.steps if step.kind is StepKind.TOOL}
    for message in history.messages:
        if message.role is Role.TOOL:
            state = StepState(message.metadata.get("failed", StepState.DONE))
            assert last_step.pop(message.tool_call_id).state is state
    assert not last_step, "these calls are in no message"


def check_calls(history: RunHistory, calls: Sequence[CountedCall]) -> None:
    """Assert that the calls counted by the tool server match the steps."""
    steps = [step for each in history.all() for step in each.steps if step.kind is StepKind.TOOL]
    counts = Counter(call.key for call in calls)
    for key, key_steps in _by_key(steps).items():
        max_runs = 1 + sum(step.state is StepState.UNKNOWN for step in key_steps[:-1])
        if any(step.effectful for step in key_steps):
            assert counts[key] <= max_runs, f"`{key}` ran {counts[key]} times: {key_steps}"
            if key_steps[-1].state is StepState.DONE:
                assert counts[key] >= 1, f"`{key}` is done, and never ran"
    assert set(counts) <= {step.key for step in steps}, "a call was made under a key that no step has"
    keys = {(call.name, call.key) for call in calls}
    assert len(keys) == len({name for name, _ in keys}), "a call was made again under another key"


def _by_key(steps: Iterable[Step]) -> dict[str, list[Step]]:
    steps_by_key: dict[str, list[Step]] = {}
    for step in steps:
        steps_by_key.setdefault(step.key, []).append(step)
    return steps_by_key


def _assert_equal(actual: Canonical, expected: Canonical) -> None:
    if actual != expected:
        expected_lines, actual_lines = (
            msgspec.json.format(msgspec.json.encode(each)).decode().splitlines() for each in (expected, actual)
        )
        raise AssertionError(
            "\n".join(unified_diff(expected_lines, actual_lines, "undisturbed", "found", lineterm="", n=4))
        )
