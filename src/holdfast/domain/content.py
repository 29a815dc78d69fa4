"""What a message is made of: a text, or AG-UI content parts."""

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.ids import FileId

Json: TypeAlias = Any
"""Any JSON value."""


class DataSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="data"):
    """Media carried in the part itself, in base64."""

    value: str
    mime_type: str


class UrlSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="url"):
    """Media to be fetched from an address."""

    value: str
    mime_type: str | UnsetType = UNSET


class FileSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="file"):
    """Media kept in a store of files; ours when `provider` is absent."""

    value: str
    provider: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET


MediaSource: TypeAlias = DataSource | UrlSource | FileSource


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    id: str | UnsetType = UNSET
    metadata: dict[str, Json] | UnsetType = UNSET


class TextPart(_Part, frozen=True, kw_only=True, tag="text"):
    """Words."""

    text: str


class ImagePart(_Part, frozen=True, kw_only=True, tag="image"):
    """A picture."""

    source: MediaSource


class AudioPart(_Part, frozen=True, kw_only=True, tag="audio"):
    """A sound."""

    source: MediaSource


class VideoPart(_Part, frozen=True, kw_only=True, tag="video"):
    """A film."""

    source: MediaSource


class DocumentPart(_Part, frozen=True, kw_only=True, tag="document"):
    """A document."""

    source: MediaSource


Part: TypeAlias = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart
Content: TypeAlias = str | list[Part]


def stored_file(part: Part) -> FileSource | None:
    """Return the file of the space that a part is, if it is one."""
    if isinstance(part, TextPart) or not isinstance(part.source, FileSource):
        return None
    return part.source if part.source.provider is UNSET else None


def stored_file_ids(content: Content) -> list[FileId]:
    """Return the files of the space that a content names."""
    if isinstance(content, str):
        return []
    return [FileId(file.value) for part in content if (file := stored_file(part)) is not None]
