"""What a server answers, as what a model reads: text, JSON, and files in place of pictures and other bytes."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolReply

MOST_TEXT: Final = 4 * 1024 * 1024
"""Characters of one answer that are read."""
MOST_FILES: Final = 16
"""Files of one answer that are kept."""

Keep: TypeAlias = Callable[[bytes, str], Awaitable[str]]
"""Keeps bytes of a media type, and returns the id of the file."""


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server has put into its answer."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class Block(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an answer; of the fields, those are there that its type has."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    resource: Resource = Resource()


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer."""

    content: list[Block] = []
    structured_content: Json = None
    is_error: bool = False


async def reply_of(result: Result, keep: Keep) -> ToolReply:
    """Return what a model reads of an answer."""
    files = _Files(keep)
    text = "\n".join([await _told(block, files) for block in result.content])
    return ToolReply(content=_content(_cut(text), result.structured_content), failed=result.is_error)


class _Files:
    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._kept = 0

    async def note(self, data: str, media_type: str | None) -> str:
        """Keep bytes as a file, and return what stands for them."""
        kind = media_type or "application/octet-stream"
        if self._kept == MOST_FILES:
            return f"[{kind}: left out, there are more than {MOST_FILES} files in this answer]"
        try:
            content = b64decode(data, validate=True)
        except (NotBase64, ValueError):
            return f"[{kind}: left out, it cannot be read]"
        self._kept += 1
        return f"[{kind}, {len(content)} bytes: file `{await self._keep(content, kind)}`]"


async def _told(block: Block, files: _Files) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return await files.note(block.data, block.mime_type)
        case "resource" if block.resource.blob is not None:
            return f"{block.resource.uri} {await files.note(block.resource.blob, block.resource.mime_type)}"
        case "resource":
            return f"[{block.resource.uri}]\n{block.resource.text or ''}"
        case "resource_link":
            return f"[{block.name or 'resource'}: {block.uri}]"
        case other:
            return f"[left out: a part of the kind `{other[:40]}`]"


def _content(text: str, structured: Json) -> Json:
    """Return what is structured alone where the text says the same, as servers do for those who read text only."""
    if structured is None:
        return text
    # Where a tool returns no object, servers wrap what it returns in one.
    alone = structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    said = (structured, alone)
    return alone if not text.strip() or text == alone or _read(text) in said else {"text": text, "structured": alone}


def _read(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _cut(text: str) -> str:
    rest = len(text) - MOST_TEXT
    return text if rest <= 0 else f"{text[:MOST_TEXT]}\n[{rest} characters were too many to keep]"
