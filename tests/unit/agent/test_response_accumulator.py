"""`ResponseAccumulator`: any sequence of deltas gives a valid stream and the whole message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.model_stream import ResponseAccumulator
from holdfast.domain.events import (
    Event,
    ReasoningMessageContent,
    RunFinished,
    TextMessageContent,
    TextMessageStart,
    ToolCallArgs,
    ToolCallStart,
)
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.run import Move, RunStatus
from holdfast.ports.model import (
    ModelDelta,
    ModelFinished,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)
from holdfast.testing.stream_verifier import verify_stream
from tests.unit.agent.builders import RUN, THREAD
from tests.unit.agent.fakes import FakeJournal, new_writer

M = MessageId("m")
END = RunFinished(thread_id=THREAD, run_id=RUN)
words = st.text(max_size=5)


def assign_call_id_by_index(proposed: ToolCallId, index: int) -> ToolCallId:
    """Return the id that a call has in the log."""
    return ToolCallId(f"call-{index}")


def deltas_of(kinds: list[tuple[str, str]]) -> list[ModelDelta]:
    """Return deltas of text, of reasoning, of new calls, or of the arguments of an earlier call."""
    deltas: list[ModelDelta] = []
    calls = 0
    for kind, text in kinds:
        if kind == "text":
            deltas.append(TextDelta(text))
        elif kind == "thought":
            deltas.append(ReasoningDelta(text))
        elif kind == "call":
            deltas.append(ToolCallStarted(ToolCallId(f"c{calls}"), "look"))
            calls += 1
        elif calls:
            deltas.append(ToolArgumentsDelta(ToolCallId(f"c{len(text) % calls}"), text))
    return deltas


async def stream_into_log(
    deltas: list[ModelDelta], *, commit_after: set[int] | None = None
) -> tuple[ResponseAccumulator, list[Event]]:
    """Return the response of these deltas, and the events of its log, with commits after some of the deltas."""
    journal = FakeJournal()
    writer = new_writer(journal)
    response = ResponseAccumulator(writer, M, assign_call_id=assign_call_id_by_index)
    for index, delta in enumerate(deltas):
        response.add(delta)
        if index in (commit_after or ()):
            await writer.commit()
    await writer.commit(Move(to=RunStatus.COMPLETED), end=END)
    return response, journal.events


kinds = st.lists(st.tuples(st.sampled_from(["text", "text", "thought", "call", "arguments"]), words), max_size=12)


@given(kinds=kinds, finished=st.booleans(), commits=st.sets(st.integers(0, 12)))
async def test_any_sequence_of_deltas_gives_a_valid_stream_and_the_whole_message(
    kinds: list[tuple[str, str]], finished: bool, commits: set[int]
) -> None:
    deltas = [*deltas_of(kinds), *([ModelFinished(usage=ZERO_USAGE)] if finished else [])]
    response, events = await stream_into_log(deltas, commit_after=commits)
    verify_stream(events)
    message, _ = response.build_message()
    assert message.content == "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    assert message.content == "".join(event.delta for event in events if isinstance(event, TextMessageContent))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    assert message.metadata.get("thinking", "") == reasoning
    assert reasoning == "".join(event.delta for event in events if isinstance(event, ReasoningMessageContent))
    started = [event.tool_call_id for event in events if isinstance(event, ToolCallStart)]
    assert started == [call.id for call in message.tool_calls]
    arguments = "".join(delta.arguments for delta in deltas if isinstance(delta, ToolArgumentsDelta))
    assert sorted(arguments) == sorted("".join(event.delta for event in events if isinstance(event, ToolCallArgs)))
    assert sorted(response.streamed_text()) == sorted(message.content + reasoning + arguments)


async def test_streamed_text_has_the_id_of_the_final_message() -> None:
    response, events = await stream_into_log([ReasoningDelta("hm"), TextDelta("yes"), ModelFinished(usage=ZERO_USAGE)])
    assert [event.message_id for event in events if isinstance(event, TextMessageStart)] == [M]
    assert response.build_message()[0].id == M


async def test_interleaved_arguments_of_two_calls_are_separated() -> None:
    first, second = ToolCallId("x"), ToolCallId("y")
    response, _ = await stream_into_log(
        [
            ToolCallStarted(first, "look"),
            ToolCallStarted(second, "jump"),
            ToolArgumentsDelta(second, '{"far":'),
            ToolArgumentsDelta(first, "{}"),
            ToolArgumentsDelta(second, " true}"),
            ModelFinished(usage=ZERO_USAGE),
        ]
    )
    message, unreadable = response.build_message()
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("call-0", "look", {}),
        ("call-1", "jump", {"far": True}),
    ]
    assert unreadable == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"far":', "not JSON"),
        ("far", "not JSON"),
        ("[1]", "not a JSON object"),
        ("7", "not a JSON object"),
        ('{"a": "\\ud800"}', "not JSON"),
        ('{"a":[' + "1," * 500_000 + "1]}", "too large"),
        ('{"a":[' + "1e300," * 20_001 + "1]}", "too large"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested too deeply"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "nested too deeply"),
        ('{"a":' * 9_999 + "1" + "}" * 9_999, "nested too deeply"),
    ],
)
async def test_unparsable_arguments_are_empty_and_reported(arguments: str, why: str) -> None:
    call = ToolCallId("x")
    response, _ = await stream_into_log(
        [ToolCallStarted(call, "look"), ToolArgumentsDelta(call, arguments), ModelFinished(usage=ZERO_USAGE)]
    )
    message, unreadable = response.build_message()
    assert message.tool_calls[0].arguments == {}
    assert why in unreadable[ToolCallId("call-0")]
    assert message.metadata["unreadable"] == unreadable


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_a_call_without_arguments_has_empty_arguments(arguments: str) -> None:
    call = ToolCallId("x")
    response, _ = await stream_into_log(
        [ToolCallStarted(call, "look"), ToolArgumentsDelta(call, arguments), ModelFinished(usage=ZERO_USAGE)]
    )
    message, unreadable = response.build_message()
    assert (message.tool_calls[0].arguments, unreadable) == ({}, {})


async def test_provider_data_is_stored_with_the_message() -> None:
    response, _ = await stream_into_log(
        [TextDelta("yes"), ModelFinished(usage=ZERO_USAGE, provider_data={"signature": "s"})]
    )
    assert response.build_message()[0].metadata == {"provider": {"signature": "s"}}


async def test_arguments_may_be_nested_up_to_the_limit() -> None:
    call, arguments = ToolCallId("x"), '{"a":' * 64 + "1" + "}" * 64
    response, _ = await stream_into_log(
        [ToolCallStarted(call, "look"), ToolArgumentsDelta(call, arguments), ModelFinished(usage=ZERO_USAGE)]
    )
    assert response.build_message()[1] == {}
