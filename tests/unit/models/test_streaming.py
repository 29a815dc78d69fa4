from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as told

from holdfast.domain.errors import ModelRefused, ModelUnavailable
from holdfast.models.streaming import StreamConverter
from holdfast.ports.model import ModelDelta, ReasoningDelta, TextDelta, ToolArgumentsDelta, ToolCallStarted


def start(index: int, part: Any) -> told.PartStartEvent:
    return told.PartStartEvent(index=index, part=part)


def more(index: int, delta: Any) -> told.PartDeltaEvent:
    return told.PartDeltaEvent(index=index, delta=delta)


def end(index: int, part: Any) -> told.PartEndEvent:
    return told.PartEndEvent(index=index, part=part)


def tell(*events: Any, taken: tuple[str, ...] = ()) -> list[ModelDelta]:
    transcript = StreamConverter(taken)
    return [delta for event in events for delta in transcript.convert(event)]


def test_words_and_thoughts_are_told_as_they_come_and_empty_ones_are_not() -> None:
    assert tell(
        start(0, told.ThinkingPart(content="")),
        more(0, told.ThinkingPartDelta(content_delta="hm")),
        more(0, told.ThinkingPartDelta(signature_delta="signed")),
        start(1, told.TextPart(content="he")),
        told.FinalResultEvent(tool_name=None, tool_call_id=None),
        more(1, told.TextPartDelta(content_delta="")),
        more(1, told.TextPartDelta(content_delta="llo")),
        end(1, told.TextPart(content="hello")),
    ) == [ReasoningDelta("hm"), TextDelta("he"), TextDelta("llo")]


def test_calls_that_come_side_by_side_are_told_apart() -> None:
    first, second = told.ToolCallPart("look", None, "call_one"), told.ToolCallPart("jump", "{", "call_two")
    assert tell(
        start(0, first),
        start(1, second),
        more(0, told.ToolCallPartDelta(args_delta="{}")),
        more(1, told.ToolCallPartDelta(args_delta="}")),
    ) == [
        ToolCallStarted("call_two", "jump"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_two", "{"),  # type: ignore[arg-type]
        ToolCallStarted("call_one", "look"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_one", "{}"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_two", "}"),  # type: ignore[arg-type]
    ]


def test_a_call_without_arguments_is_told_when_it_ends() -> None:
    part = told.ToolCallPart("look", None, "call_one")
    assert tell(start(0, part), end(0, part), end(0, part)) == [ToolCallStarted("call_one", "look")]  # type: ignore[arg-type]


def test_a_name_that_comes_in_pieces_is_told_whole() -> None:
    assert tell(
        start(0, told.ToolCallPart("lo", None, "call_one")),
        more(0, told.ToolCallPartDelta(tool_name_delta="ok")),
        more(0, told.ToolCallPartDelta(args_delta={"at": 1})),
    ) == [ToolCallStarted("call_one", "look"), ToolArgumentsDelta("call_one", '{"at":1}')]  # type: ignore[arg-type]


def test_a_name_that_changes_after_it_was_told_is_nonsense() -> None:
    with pytest.raises(ModelUnavailable, match="changed the name of its call of `look`"):
        tell(
            start(0, told.ToolCallPart("look", "{}", "call_one")), more(0, told.ToolCallPartDelta(tool_name_delta="ed"))
        )


def test_a_call_that_begins_twice_is_nonsense() -> None:
    with pytest.raises(ModelUnavailable, match="`look` a second time"):
        tell(*[start(0, told.ToolCallPart("look", "{}", "call_one"))] * 2)


@pytest.mark.parametrize("name", ["lo\x00ok", "look\n", "\ud800"])
def test_a_call_of_what_can_be_no_name_is_nonsense(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="by what is no name"):
        tell(start(0, told.ToolCallPart(name, "{}", "call_one")))


def test_half_of_a_character_is_told_as_one_that_nobody_knows() -> None:
    half = "a\ud83d"
    assert tell(
        start(0, told.ThinkingPart(content=half)),
        more(0, told.ThinkingPartDelta(content_delta=half)),
        start(1, told.TextPart(content=half)),
        more(1, told.TextPartDelta(content_delta=half)),
        start(2, told.ToolCallPart("look", half, "call_one")),
    ) == [
        *[ReasoningDelta("a\ufffd")] * 2,
        *[TextDelta("a\ufffd")] * 2,
        ToolCallStarted("call_one", "look"),  # type: ignore[arg-type]
        ToolArgumentsDelta("call_one", "a\ufffd"),  # type: ignore[arg-type]
    ]


@given(st.lists(st.sampled_from(["", "0", "call_1", "call_long_enough", "call_of_before"]), max_size=6))
def test_ids_of_calls_are_unique_in_their_conversation(ids: list[str]) -> None:
    said = tell(
        *(start(index, told.ToolCallPart("look", "{}", id)) for index, id in enumerate(ids)), taken=("call_of_before",)
    )
    made = [delta.id for delta in said if isinstance(delta, ToolCallStarted)]
    assert len(made) == len(ids)
    assert len({*made, "call_of_before"}) == len(ids) + 1
    assert ("call_long_enough" in ids) == ("call_long_enough" in made)


def test_what_runs_at_the_provider_is_not_ours_to_run() -> None:
    part = told.NativeToolCallPart("web_search", None, "srv_1", provider_name="anthropic")
    answer = told.NativeToolReturnPart("web_search", {}, "srv_1", provider_name="anthropic")
    assert tell(start(0, part), more(0, told.ToolCallPartDelta(args_delta="{}")), end(0, part), start(1, answer)) == []


def test_what_a_later_pydantic_ai_may_tell_is_refused_by_its_name() -> None:
    with pytest.raises(ModelRefused, match="`object`, which this version does not know"):
        tell(start(0, object()))


@pytest.mark.parametrize(
    "part",
    [
        told.FilePart(content=told.BinaryContent(data=b"x", media_type="image/png")),
        told.SpeechPart(speaker="assistant"),
    ],
)
def test_an_answer_that_is_no_words_is_refused(part: Any) -> None:
    with pytest.raises(ModelRefused, match="answers in words"):
        tell(start(0, part))
