from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as ai

from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.models.messages import PROVIDER_METADATA_KEY, provider_metadata, restore_response
from tests.builders import call

SIGNED = ai.ThinkingPart(content="hm", signature="s1", provider_name="anthropic")
REDACTED = ai.ThinkingPart(content="", id="redacted_thinking", signature="s2", provider_name="anthropic")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
parts: st.SearchStrategy[list[Any]] = st.lists(
    st.builds(ai.TextPart, content=texts, id=st.none() | st.just("msg_1"), provider_name=st.just("openai"))
    | st.builds(ai.ThinkingPart, content=texts, signature=texts, provider_name=st.just("anthropic"))
    | st.builds(
        ai.ToolCallPart,
        tool_name=st.sampled_from(["look", "jump"]),
        args=st.dictionaries(texts, texts, max_size=2),
        tool_call_id=st.uuids().map(str),
        provider_name=st.just("google"),
        provider_details=st.none() | st.just({"thought_signature": "x"}),
    ),
    max_size=6,
)


def test_a_response_of_text_and_calls_has_no_metadata() -> None:
    assert (
        provider_metadata(ai.ModelResponse(parts=[ai.TextPart(content="hi"), ai.ToolCallPart("look", "{}", "c1")]))
        == {}
    )


def test_a_text_part_without_content_is_stored_as_empty() -> None:
    empty = ai.TextPart(content=None)  # type: ignore[arg-type]  # as pydantic-ai makes it from a delta of a new type
    stored: Any = provider_metadata(ai.ModelResponse(parts=[SIGNED, empty, ai.TextPart(content="hi")]))
    assert [part["content"] for part in stored["parts"]] == ["hm", 0, 2]


@given(parts)
def test_a_response_survives_a_round_trip(given_parts: list[Any]) -> None:
    response = ai.ModelResponse(parts=given_parts, provider_name="anthropic", model_name="m")
    metadata = msgspec.json.decode(msgspec.json.encode(provider_metadata(response)))  # as the database stores it
    if metadata:
        back = restore_response(_message(response, metadata))
        assert back is not None
        assert list(back.parts) == list(response.parts)
        assert (back.provider_name, back.model_name) == ("anthropic", "m")


def test_text_and_arguments_are_not_stored_twice() -> None:
    response = ai.ModelResponse(
        parts=[SIGNED, REDACTED, ai.TextPart("a long text"), ai.ToolCallPart("look", {"at": "here"}, "c1")]
    )
    assert "a long text" not in str(provider_metadata(response))
    assert "here" not in str(provider_metadata(response))


def test_restored_calls_have_our_ids() -> None:
    metadata = provider_metadata(ai.ModelResponse(parts=[SIGNED, ai.ToolCallPart("look", {}, "0")]))
    back = restore_response(NewMessage(**_fields("", [call("call_ours", "look")], metadata)))
    assert back is not None
    assert back.parts[-1].tool_call_id == "call_ours"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "calls", "metadata"),
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
def test_metadata_that_does_not_match_its_message_is_ignored(text: str, calls: list[ToolCall], metadata: Any) -> None:
    assert restore_response(NewMessage(**_fields(text, calls, metadata))) is None


def _fields(text: str, calls: list[ToolCall], metadata: Any) -> dict[str, Any]:
    return {"role": Role.ASSISTANT, "content": text, "tool_calls": calls, "metadata": {PROVIDER_METADATA_KEY: metadata}}


def _message(response: ai.ModelResponse, metadata: Any) -> NewMessage:
    text = "".join(part.content for part in response.parts if isinstance(part, ai.TextPart))
    made = [
        ToolCall(id=ToolCallId(part.tool_call_id), name=part.tool_name, arguments=part.args_as_dict())
        for part in response.parts
        if isinstance(part, ai.ToolCallPart)
    ]
    return NewMessage(**_fields(text, made, metadata))
