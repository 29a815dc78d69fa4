"""Artifacts (results of runs) and files (the storage of a space)."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.validation import check_text

MAX_TITLE_CHARS: Final = 500
MAX_ARTIFACT_CHARS: Final = 16 * 1024 * 1024
DEFAULT_MEDIA_TYPE: Final = "text/plain"
"""The media type of an artifact with text."""
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_TOKEN: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE: Final = re.compile(rf"{_TOKEN}/{_TOKEN}( *; *{_TOKEN}=({_TOKEN}|\"[ !#-\[\]-~]*\"))*")
"""A media type of RFC 9110, without escapes in quoted strings."""


class ArtifactType(StrEnum):
    """Kind of an artifact."""

    CODE = "code"
    CONFIG = "config"
    DOC = "doc"
    PATCH = "patch"
    REPORT = "report"
    OTHER = "other"


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an artifact. `content` is null in lists, and if the content is in a file."""

    id: ArtifactId
    run_id: RunId
    space_id: SpaceId
    type: ArtifactType
    title: str
    version: int
    content: str | None
    file_id: FileId | None
    media_type: str
    digest: str
    size: int
    metadata: dict[str, Json]
    created_by: str | None
    created_at: Instant


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to store."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"
    id: FileId | None = None
    created_by: str | None = None


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An artifact to store; with the `id` of an existing one it becomes its next version.

    Without a `media_type` it has that of its file, or `text/plain`.
    """

    type: ArtifactType
    title: str
    content: str | None = None
    file_id: FileId | None = None
    file: NewFile | None = None
    """A file to store with the artifact."""
    id: ArtifactId | None = None
    media_type: str | None = None
    metadata: dict[str, Json] = {}
    created_by: str | None = None


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A named file of a space; equal contents are stored once."""

    id: FileId
    space_id: SpaceId
    name: str
    media_type: str
    digest: str
    size: int
    created_by: str | None
    created_at: Instant


def check_new_artifact(new: NewArtifact) -> None:
    """Raise if `new` is not a valid artifact."""
    if sum(each is not None for each in (new.content, new.file_id, new.file)) != 1:
        raise Invalid("an artifact needs either `content` or `file_id`: give exactly one", field="content")
    if new.file is not None:
        check_new_file(new.file)
    check_text(new.title, field="title", max_chars=MAX_TITLE_CHARS)
    if new.media_type is not None:
        check_text(new.media_type, field="media_type", max_chars=255)
        if _MEDIA_TYPE.fullmatch(new.media_type) is None:
            raise Invalid("`media_type` is not a valid media type: write one like `text/markdown`", field="media_type")
    if new.content is not None:
        check_text(new.content, field="content", max_chars=MAX_ARTIFACT_CHARS)


def check_new_file(new: NewFile) -> None:
    """Raise if `new` is not a valid file."""
    check_text(new.name, field="name", max_chars=500)
    check_text(new.media_type, field="media_type", max_chars=255)
    if len(new.content) > MAX_FILE_BYTES:
        raise TooLarge(f"a file may have at most {MAX_FILE_BYTES} bytes", field="content")
