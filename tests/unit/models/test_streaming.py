from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as ai

from holdfast.domain.errors import ModelRefused, ModelUnavailable
from holdfast.models.streaming import StreamConverter
from holdfast.ports.model import ModelDelta, ReasoningDelta, TextDelta, ToolArgumentsDelta, ToolCallStarted


def start(index: int, part: Any) -> ai.PartStartEvent:
    return ai.PartStartEvent(index=index, part=part)


def more(index: int, delta: Any) -> ai.PartDeltaEvent:
    return ai.PartDeltaEvent(index=index, delta=delta)


def end(index: int, part: Any) -> ai.PartEndEvent:
    return ai.PartEndEvent(index=index, part=part)


def tell(*events: Any, taken: tuple[str, ...] = ()) -> list[ModelDelta]:
    transcript = StreamConverter(taken)
    return [delta for event in events for delta in transcript.convert(event)]


def test_text_and_reasoning_are_streamed_and_empty_deltas_are_dropped() -> None:
    assert tell(
        start(0, ai.ThinkingPart(content="")),
        more(0, ai.ThinkingPartDelta(content_delta="hm")),
        more(0, ai.ThinkingPartDelta(signature_delta="signed")),
        start(1, ai.TextPart(content="he")),
        ai.FinalResultEvent(tool_name=None, tool_call_id=None),
        more(1, ai.TextPartDelta(content_delta="")),
        more(1, ai.TextPartDelta(content_delta="llo")),
        end(1, ai.TextPart(content="hello")),
    ) == [ReasoningDelta("hm"), TextDelta("he"), TextDelta("llo")]


def test_interleaved_calls_are_separated() -> None:
    first, second = ai.ToolCallPart("look", None, "call_one"), ai.ToolCallPart("jump", "{", "call_two")
    assert tell(
        start(0, first),
        start(1, second),
        more(0, ai.ToolCallPartDelta(args_delta="{}")),
        more(1, ai.ToolCallPartDelta(args_delta="}")),
    ) == [
        ToolCallStarted("call_two", "jump"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_two", "{"),  # type: ignore[arg-type]
        ToolCallStarted("call_one", "look"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_one", "{}"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_two", "}"),  # type: ignore[arg-type]
    ]


def test_a_call_without_arguments_starts_when_its_part_ends() -> None:
    part = ai.ToolCallPart("look", None, "call_one")
    assert tell(start(0, part), end(0, part), end(0, part)) == [ToolCallStarted("call_one", "look")]  # type: ignore[arg-type]


def test_a_name_in_pieces_is_joined() -> None:
    assert tell(
        start(0, ai.ToolCallPart("lo", None, "call_one")),
        more(0, ai.ToolCallPartDelta(tool_name_delta="ok")),
        more(0, ai.ToolCallPartDelta(args_delta={"at": 1})),
    ) == [ToolCallStarted("call_one", "look"), ToolArgumentsDelta("call_one", '{"at":1}')]  # type: ignore[arg-type]


def test_a_name_that_changes_after_the_start_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="changed the name of its call of `look`"):
        tell(start(0, ai.ToolCallPart("look", "{}", "call_one")), more(0, ai.ToolCallPartDelta(tool_name_delta="ed")))


def test_a_call_that_starts_twice_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="`look` twice"):
        tell(*[start(0, ai.ToolCallPart("look", "{}", "call_one"))] * 2)


@pytest.mark.parametrize("name", ["lo\x00ok", "look\n", "\ud800"])
def test_an_invalid_tool_name_is_an_outage(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="with an invalid name"):
        tell(start(0, ai.ToolCallPart(name, "{}", "call_one")))


def test_an_unpaired_surrogate_becomes_the_replacement_character() -> None:
    half = "a\ud83d"
    assert tell(
        start(0, ai.ThinkingPart(content=half)),
        more(0, ai.ThinkingPartDelta(content_delta=half)),
        start(1, ai.TextPart(content=half)),
        more(1, ai.TextPartDelta(content_delta=half)),
        start(2, ai.ToolCallPart("look", half, "call_one")),
    ) == [
        *[ReasoningDelta("a\ufffd")] * 2,
        *[TextDelta("a\ufffd")] * 2,
        ToolCallStarted("call_one", "look"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_one", "a\ufffd"),  # type: ignore[arg-type]
    ]


@given(st.lists(st.sampled_from(["", "0", "call_1", "call_long_enough", "call_of_before"]), max_size=6))
def test_call_ids_are_unique_in_their_conversation(ids: list[str]) -> None:
    output = tell(
        *(start(index, ai.ToolCallPart("look", "{}", id)) for index, id in enumerate(ids)), taken=("call_of_before",)
    )
    made = [delta.id for delta in output if isinstance(delta, ToolCallStarted)]
    assert len(made) == len(ids)
    assert len({*made, "call_of_before"}) == len(ids) + 1
    assert ("call_long_enough" in ids) == ("call_long_enough" in made)


def test_calls_that_run_at_the_provider_are_dropped() -> None:
    part = ai.NativeToolCallPart("web_search", None, "srv_1", provider_name="anthropic")
    answer = ai.NativeToolReturnPart("web_search", {}, "srv_1", provider_name="anthropic")
    assert tell(start(0, part), more(0, ai.ToolCallPartDelta(args_delta="{}")), end(0, part), start(1, answer)) == []


def test_an_unknown_part_is_refused_by_its_name() -> None:
    with pytest.raises(ModelRefused, match="`object`, which this version does not support"):
        tell(start(0, object()))


@pytest.mark.parametrize(
    "part",
    [
        ai.FilePart(content=ai.BinaryContent(data=b"x", media_type="image/png")),
        ai.SpeechPart(speaker="assistant"),
    ],
)
def test_a_file_or_speech_response_is_refused(part: Any) -> None:
    with pytest.raises(ModelRefused, match="use a model that returns text"):
        tell(start(0, part))
