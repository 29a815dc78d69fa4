from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as ai

from holdfast.domain.content import (
    AudioPart,
    DataSource,
    DocumentPart,
    FileSource,
    ImagePart,
    Part,
    TextPart,
    UrlSource,
    VideoPart,
)
from holdfast.domain.errors import ModelRefused
from holdfast.domain.message import FAILED_METADATA_KEY, NewMessage, Role
from holdfast.models.messages import to_history, to_request_parameters
from tests.builders import assistant, call, result, user
from tests.unit.models.model_calls import model_request

MEDIA: dict[Any, type[ai.FileUrl]] = {
    ImagePart: ai.ImageUrl,
    AudioPart: ai.AudioUrl,
    VideoPart: ai.VideoUrl,
    DocumentPart: ai.DocumentUrl,
}


def test_a_conversation_is_requests_and_responses_in_turn() -> None:
    turns = to_history(
        [
            NewMessage(role=Role.SYSTEM, content="be kind"),
            user("look"),
            assistant("I look", call("c1", "look", at=1), call("c2", "jump")),
            result("c1", "seen"),
            result("c2", "jumped"),
            user("and now?"),
            assistant("done"),
        ]
    )
    assert [(type(turn).__name__, [_told(part) for part in turn.parts]) for turn in turns] == [
        ("ModelRequest", [("SystemPromptPart", "be kind"), ("UserPromptPart", "look")]),
        (
            "ModelResponse",
            [("TextPart", "I look"), ("ToolCallPart", "look", "c1", {"at": 1}), ("ToolCallPart", "jump", "c2", {})],
        ),
        (
            "ModelRequest",
            [
                ("ToolReturnPart", "look", "c1", "seen"),
                ("ToolReturnPart", "jump", "c2", "jumped"),
                ("UserPromptPart", "and now?"),
            ],
        ),
        ("ModelResponse", [("TextPart", "done")]),
    ]


def test_an_answer_without_words_and_calls_is_left_out() -> None:
    assert [type(turn) for turn in to_history([user("hi"), assistant(""), user("hello?")])] == [ai.ModelRequest]


def test_the_result_of_a_call_that_nobody_made_is_refused() -> None:
    with pytest.raises(ModelRefused, match="the result of `c9` has no matching tool call"):
        to_history([user("hi"), result("c9")])


@pytest.mark.parametrize("kind", MEDIA)
def test_media_at_an_address_stays_there(kind: Any) -> None:
    url = "https://example.org/a.bin"
    (item,) = _items(kind(source=UrlSource(value=url, mime_type="image/png")))
    assert type(item) is MEDIA[kind]
    assert (item.url, item.media_type) == (url, "image/png")


@pytest.mark.parametrize("kind", MEDIA)
@given(data=st.binary(max_size=50))
def test_media_in_a_part_is_sent_as_bytes(kind: Any, data: bytes) -> None:
    source = DataSource(value=b64encode(data).decode(), mime_type="application/pdf")
    assert _items(kind(source=source)) == [ai.BinaryContent(data=data, media_type="application/pdf")]


def test_words_beside_media_keep_their_place() -> None:
    picture = ImagePart(source=UrlSource(value="https://example.org/a.png"))
    before, between, after = _items(TextPart(text="this:"), picture, TextPart(text="what is it?"))
    assert (before, type(between), after) == ("this:", ai.ImageUrl, "what is it?")


def test_words_alone_are_one_text() -> None:
    (turn,) = to_history([NewMessage(role=Role.USER, content=[TextPart(text="a"), TextPart(text="b")])])
    assert turn.parts[0].content == "ab"  # type: ignore[union-attr]


def test_what_a_tool_shows_is_shown_to_the_model() -> None:
    picture = ImagePart(source=UrlSource(value="https://example.org/a.png"))
    shown = NewMessage(role=Role.TOOL, content=[TextPart(text="seen"), picture], tool_call_id=call("c1").id)
    *_, turn = to_history([assistant("", call("c1")), shown])
    assert [type(item) for item in turn.parts[0].content] == [str, ai.ImageUrl]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("metadata", "outcome"),
    [({}, "success"), ({FAILED_METADATA_KEY: "failed"}, "failed"), ({FAILED_METADATA_KEY: "unknown"}, "failed")],
)
def test_a_call_that_did_not_go_well_is_marked_as_such(metadata: dict[str, Any], outcome: str) -> None:
    result = NewMessage(role=Role.TOOL, content="no", tool_call_id=call("c1").id, metadata=metadata)
    *_, turn = to_history([assistant("", call("c1")), result])
    assert turn.parts[0].outcome == outcome  # type: ignore[union-attr]


def test_a_file_in_a_providers_store_is_passed_by_its_id() -> None:
    (item,) = _items(DocumentPart(source=FileSource(value="file-1", provider="openai", mime_type="application/pdf")))
    assert (item.file_id, item.provider_name, item.media_type) == ("file-1", "openai", "application/pdf")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (FileSource(value="fil_1"), "`fil_1` is not in a provider's file store.*send it as data"),
        (FileSource(value="x", provider="somewhere"), "`x` is not in a provider's file store"),
        (DataSource(value="not base64!", mime_type="image/png"), "not base64"),
        (UrlSource(value="file:///etc/passwd"), "must begin with https://"),
    ],
)
def test_media_that_no_model_can_reach_is_refused_with_the_remedy(source: Any, message: str) -> None:
    with pytest.raises(ModelRefused, match=message):
        _items(ImagePart(source=source))


def test_instructions_and_tools_are_request_parameters() -> None:
    requests = to_request_parameters(model_request(tools=["look"], system="Be good."))
    assert [part.content for part in requests.instruction_parts or []] == ["Be good."]
    (tool,) = requests.function_tools
    assert (tool.name, tool.description, tool.parameters_json_schema) == ("look", "Does look.", {"type": "object"})
    assert to_request_parameters(model_request(system="")).instruction_parts == []


def _items(*parts: Part) -> list[Any]:
    (turn,) = to_history([NewMessage(role=Role.USER, content=list(parts))])
    return list(turn.parts[0].content)  # type: ignore[union-attr,arg-type]


def _told(part: Any) -> tuple[Any, ...]:
    kind = type(part).__name__
    match part:
        case ai.ToolCallPart():
            return kind, part.tool_name, part.tool_call_id, part.args
        case ai.ToolReturnPart():
            return kind, part.tool_name, part.tool_call_id, part.content
        case _:
            return kind, part.content
