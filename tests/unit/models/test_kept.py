from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as told

from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.models.messages import PROVIDER_METADATA_KEY, provider_metadata, restore_response
from tests.builders import call

SIGNED = told.ThinkingPart(content="hm", signature="s1", provider_name="anthropic")
REDACTED = told.ThinkingPart(content="", id="redacted_thinking", signature="s2", provider_name="anthropic")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
parts: st.SearchStrategy[list[Any]] = st.lists(
    st.builds(told.TextPart, content=texts, id=st.none() | st.just("msg_1"), provider_name=st.just("openai"))
    | st.builds(told.ThinkingPart, content=texts, signature=texts, provider_name=st.just("anthropic"))
    | st.builds(
        told.ToolCallPart,
        tool_name=st.sampled_from(["look", "jump"]),
        args=st.dictionaries(texts, texts, max_size=2),
        tool_call_id=st.uuids().map(str),
        provider_name=st.just("google"),
        provider_details=st.none() | st.just({"thought_signature": "x"}),
    ),
    max_size=6,
)


def test_an_answer_of_words_and_calls_needs_nothing_kept() -> None:
    assert (
        provider_metadata(
            told.ModelResponse(parts=[told.TextPart(content="hi"), told.ToolCallPart("look", "{}", "c1")])
        )
        == {}
    )


@given(parts)
def test_an_answer_comes_back_as_it_was_given(given_parts: list[Any]) -> None:
    response = told.ModelResponse(parts=given_parts, provider_name="anthropic", model_name="m")
    kept = msgspec.json.decode(msgspec.json.encode(provider_metadata(response)))  # as a database keeps it
    if kept:
        back = restore_response(_message(response, kept))
        assert back is not None
        assert list(back.parts) == list(response.parts)
        assert (back.provider_name, back.model_name) == ("anthropic", "m")


def test_words_and_arguments_are_not_kept_twice() -> None:
    response = told.ModelResponse(
        parts=[SIGNED, REDACTED, told.TextPart("a long text"), told.ToolCallPart("look", {"at": "here"}, "c1")]
    )
    assert "a long text" not in str(provider_metadata(response))
    assert "here" not in str(provider_metadata(response))


def test_calls_come_back_under_the_ids_that_we_gave_them() -> None:
    kept = provider_metadata(told.ModelResponse(parts=[SIGNED, told.ToolCallPart("look", {}, "0")]))
    back = restore_response(NewMessage(**_fields("", [call("call_ours", "look")], kept)))
    assert back is not None
    assert back.parts[-1].tool_call_id == "call_ours"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "calls", "kept"),
    [
        ("shorter", [], {"parts": [{"part_kind": "text", "content": 8}]}),
        ("longer", [], {"parts": [{"part_kind": "text", "content": 5}]}),
        ("", [], {"parts": [{"part_kind": "tool-call", "tool_name": "look"}]}),
        ("", [call("c1", "jump")], {"parts": [{"part_kind": "tool-call", "tool_name": "look"}]}),
        ("", [call("c1", "look")], {"parts": []}),
        ("", [], {"parts": [{"part_kind": "of another version"}]}),
        ("", [], {"parts": ["nonsense"]}),
        ("", [], {"parts": 3}),
        ("", [], "nonsense"),
        ("", [], None),
    ],
)
def test_what_does_not_fit_its_message_is_forgotten(text: str, calls: list[ToolCall], kept: Any) -> None:
    assert restore_response(NewMessage(**_fields(text, calls, kept))) is None


def _fields(text: str, calls: list[ToolCall], kept: Any) -> dict[str, Any]:
    return {"role": Role.ASSISTANT, "content": text, "tool_calls": calls, "metadata": {PROVIDER_METADATA_KEY: kept}}


def _message(response: told.ModelResponse, kept: Any) -> NewMessage:
    text = "".join(part.content for part in response.parts if isinstance(part, told.TextPart))
    made = [
        ToolCall(id=ToolCallId(part.tool_call_id), name=part.tool_name, arguments=part.args_as_dict())
        for part in response.parts
        if isinstance(part, told.ToolCallPart)
    ]
    return NewMessage(**_fields(text, made, kept))
