"""Artifacts, the results of runs, and files, the storage of a space."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.validation import check_text

MAX_ARTIFACT_CHARS: Final = 16 * 1024 * 1024
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_TOKEN: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE: Final = re.compile(rf"{_TOKEN}/{_TOKEN}( *; *{_TOKEN}=({_TOKEN}|\"[ !#-\[\]-~]*\"))*")
"""As RFC 9110 writes it, without escapes in what is quoted."""


class ArtifactType(StrEnum):
    """What kind of result it is."""

    CODE = "code"
    CONFIG = "config"
    DOC = "doc"
    PATCH = "patch"
    REPORT = "report"
    OTHER = "other"


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a result. `content` is null where it is in a file, and in lists."""

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


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A result to be kept; with the `id` of an earlier one it becomes its next version."""

    type: ArtifactType
    title: str
    content: str | None = None
    file_id: FileId | None = None
    id: ArtifactId | None = None
    media_type: str = "text/plain"
    metadata: dict[str, Json] = {}
    created_by: str | None = None


class File(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a space under a name; the same bytes are kept once."""

    id: FileId
    space_id: SpaceId
    name: str
    media_type: str
    digest: str
    size: int
    created_by: str | None
    created_at: Instant


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes to be kept."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"
    id: FileId | None = None
    created_by: str | None = None


def check_new_artifact(new: NewArtifact) -> None:
    """Raise if `new` can never be an artifact."""
    if (new.content is None) == (new.file_id is None):
        raise Invalid("an artifact has either `content` or a `file_id`", field="content")
    check_text(new.title, field="title", max_chars=500)
    check_text(new.media_type, field="media_type", max_chars=255)
    if _MEDIA_TYPE.fullmatch(new.media_type) is None:
        raise Invalid("`media_type` is no media type: write one like `text/markdown`", field="media_type")
    if new.content is not None:
        check_text(new.content, field="content", max_chars=MAX_ARTIFACT_CHARS)


def check_new_file(new: NewFile) -> None:
    """Raise if `new` can never be a file."""
    check_text(new.name, field="name", max_chars=500)
    check_text(new.media_type, field="media_type", max_chars=255)
    if len(new.content) > MAX_FILE_BYTES:
        raise TooLarge(f"a file may have at most {MAX_FILE_BYTES} bytes", field="content")
