"""Whatever a server answers, a model reads text or JSON."""

from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolReply
from holdfast.mcp.replies import MAX_FILES, MAX_TEXT_CHARS, McpResult, reply_from_result

PICTURE = b64encode(b"png").decode()


class Shelf:
    """Keeps files."""

    def __init__(self) -> None:
        self.kept: list[tuple[bytes, str]] = []

    async def keep(self, content: bytes, media_type: str) -> str:
        self.kept.append((content, media_type))
        return f"fil_{len(self.kept)}"


async def told(*blocks: dict[str, Json], shelf: Shelf | None = None, **fields: Json) -> ToolReply:
    """Return what a model reads of an answer."""
    result = msgspec.convert({"content": list(blocks), **fields}, McpResult)
    return await reply_from_result(result, (shelf or Shelf()).keep)


def text(said: str) -> dict[str, Json]:
    return {"type": "text", "text": said}


async def test_texts_are_joined_and_errors_are_failures() -> None:
    assert await told(text("a"), text("b")) == ToolReply(content="a\nb")
    assert await told(text("no"), isError=True) == ToolReply(content="no", failed=True)
    assert await told() == ToolReply(content="")


@pytest.mark.parametrize(
    ("said", "structured", "expected"),
    [
        ('{"a": 1}', {"a": 1}, {"a": 1}),
        ("", {"a": 1}, {"a": 1}),
        ("hello", {"result": "hello"}, "hello"),
        ("[1, 2]", {"result": [1, 2]}, [1, 2]),
        ("one", {"a": 1}, {"text": "one", "structured": {"a": 1}}),
    ],
)
async def test_what_is_structured_stands_alone_where_the_text_says_the_same(
    said: str, structured: Json, expected: Json
) -> None:
    assert (await told(text(said), structuredContent=structured)).content == expected


async def test_bytes_are_kept_as_files() -> None:
    shelf = Shelf()
    reply = await told(
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": PICTURE}},
        {"type": "audio", "data": "no base64!", "mimeType": "audio/wav"},
        shelf=shelf,
    )
    assert shelf.kept == [(b"png", "image/png"), (b"png", "application/octet-stream")]
    assert reply.content == (
        "[image/png, 3 bytes: file `fil_1`]\n"
        "file:///a [application/octet-stream, 3 bytes: file `fil_2`]\n"
        "[audio/wav: left out, it cannot be read]"
    )


async def test_only_so_many_files_and_so_much_text_are_kept() -> None:
    shelf = Shelf()
    many = [{"type": "image", "data": PICTURE, "mimeType": "image/png"}] * (MAX_FILES + 1)
    assert "left out, there are more than" in (await told(*many, shelf=shelf)).content
    assert len(shelf.kept) == MAX_FILES
    cut = (await told(text("x" * (MAX_TEXT_CHARS + 5)))).content
    assert cut.endswith("[5 characters were too many to keep]")


async def test_resources_and_unknown_parts_are_told_of() -> None:
    reply = await told(
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "hologram"},
    )
    assert reply.content == "[file:///a]\ninside\n[b: file:///b]\n[left out: a part of the kind `hologram`]"


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(said=st.text(max_size=20), structured=json)
async def test_any_answer_can_be_read(said: str, structured: Json) -> None:
    msgspec.json.encode((await told(text(said), structuredContent=structured)).content)
