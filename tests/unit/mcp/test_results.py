"""Results of a server become text or JSON for the model."""

from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolReply
from holdfast.mcp import replies
from holdfast.mcp.replies import MAX_FILES, MAX_TEXT_CHARS, McpResult, reply_from_result

PICTURE = b64encode(b"png").decode()


class SavedFiles:
    """A fake file store."""

    def __init__(self) -> None:
        self.saved: list[tuple[bytes, str]] = []

    async def save(self, content: bytes, media_type: str) -> str:
        self.saved.append((content, media_type))
        return f"fil_{len(self.saved)}"


async def reply_for(*blocks: dict[str, Json], files: SavedFiles | None = None, **fields: Json) -> ToolReply:
    """Return the reply for a result."""
    result = msgspec.convert({"content": list(blocks), **fields}, McpResult)
    return await reply_from_result(result, (files or SavedFiles()).save)


def text(content: str) -> dict[str, Json]:
    return {"type": "text", "text": content}


async def test_texts_are_joined_and_errors_are_failures() -> None:
    assert await reply_for(text("a"), text("b")) == ToolReply(content="a\nb")
    assert await reply_for(text("no"), isError=True) == ToolReply(content="no", failed=True)
    assert await reply_for() == ToolReply(content="")


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        ('{"a": 1}', {"a": 1}, {"a": 1}),
        ("", {"a": 1}, {"a": 1}),
        ("hello", {"result": "hello"}, "hello"),
        ("[1, 2]", {"result": [1, 2]}, [1, 2]),
        ("one", {"a": 1}, {"text": "one", "structured": {"a": 1}}),
    ],
)
async def test_text_that_repeats_the_structured_content_is_dropped(
    content: str, structured: Json, expected: Json
) -> None:
    assert (await reply_for(text(content), structuredContent=structured)).content == expected


async def test_a_text_with_very_many_values_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "MAX_DECODED_VALUES", 3)
    few, many = [1, 2, 3], [1, 2, 3, 4]
    assert (await reply_for(text("[1, 2, 3]"), structuredContent=few)).content == few
    expected = {"text": "[1, 2, 3, 4]", "structured": many}
    assert (await reply_for(text("[1, 2, 3, 4]"), structuredContent=many)).content == expected


async def test_binary_content_is_saved_as_files() -> None:
    files = SavedFiles()
    reply = await reply_for(
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": PICTURE}},
        {"type": "audio", "data": "no base64!", "mimeType": "audio/wav"},
        files=files,
    )
    assert files.saved == [(b"png", "image/png"), (b"png", "application/octet-stream")]
    assert reply.content == (
        "[image/png, 3 bytes: file `fil_1`]\n"
        "file:///a [application/octet-stream, 3 bytes: file `fil_2`]\n"
        "[audio/wav: left out, it is not valid base64]"
    )


async def test_files_and_text_of_a_result_are_limited() -> None:
    files = SavedFiles()
    many = [{"type": "image", "data": PICTURE, "mimeType": "image/png"}] * (MAX_FILES + 1)
    assert "left out, there are more than" in (await reply_for(*many, files=files)).content
    assert len(files.saved) == MAX_FILES
    cut = (await reply_for(text("x" * (MAX_TEXT_CHARS + 5)))).content
    assert cut.endswith("[truncated: 5 characters]")


async def test_resources_and_unknown_blocks_are_named() -> None:
    reply = await reply_for(
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "hologram"},
    )
    assert reply.content == "[file:///a]\ninside\n[b: file:///b]\n[left out: a block of type `hologram`]"


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(content=st.text(max_size=20), structured=json)
async def test_any_result_can_be_encoded(content: str, structured: Json) -> None:
    msgspec.json.encode((await reply_for(text(content), structuredContent=structured)).content)
