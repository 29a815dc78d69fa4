"""Message content: a text, or AG-UI content parts."""

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.ids import FileId

Json: TypeAlias = Any
"""Any JSON value."""


class DataSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="data"):
    """Media inline, in base64."""

    value: str
    mime_type: str


class UrlSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="url"):
    """Media at a URL."""

    value: str
    mime_type: str | UnsetType = UNSET


class FileSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="file"):
    """Media in a file store: Holdfast's own if `provider` is absent."""

    value: str
    provider: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET


MediaSource: TypeAlias = DataSource | UrlSource | FileSource


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    id: str | UnsetType = UNSET
    metadata: dict[str, Json] | UnsetType = UNSET


class TextPart(_Part, frozen=True, kw_only=True, tag="text"):
    """A text."""

    text: str


class ImagePart(_Part, frozen=True, kw_only=True, tag="image"):
    """An image."""

    source: MediaSource


class AudioPart(_Part, frozen=True, kw_only=True, tag="audio"):
    """An audio recording."""

    source: MediaSource


class VideoPart(_Part, frozen=True, kw_only=True, tag="video"):
    """A video."""

    source: MediaSource


class DocumentPart(_Part, frozen=True, kw_only=True, tag="document"):
    """A document."""

    source: MediaSource


Part: TypeAlias = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart
Content: TypeAlias = str | list[Part]


def plain_text(content: Content) -> str:
    """Return the text parts of `content`, joined."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def stored_file(part: Part) -> FileSource | None:
    """Return the source of `part` if it is a stored file of the space."""
    if isinstance(part, TextPart) or not isinstance(part.source, FileSource):
        return None
    return part.source if part.source.provider is UNSET else None


def stored_file_ids(content: Content) -> list[FileId]:
    """Return the ids of the stored files in `content`."""
    if isinstance(content, str):
        return []
    return [FileId(file.value) for part in content if (file := stored_file(part)) is not None]
