from typing import Any

import pytest

from holdfast.domain.artifact import (
    MAX_ARTIFACT_CHARS,
    MAX_FILE_BYTES,
    ArtifactType,
    NewArtifact,
    NewFile,
    check_new_artifact,
    check_new_file,
)
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.ids import FileId


def artifact(**fields: Any) -> NewArtifact:
    return NewArtifact(**{"type": ArtifactType.DOC, "title": "notes", **fields})


@pytest.mark.parametrize("source", [{"content": ""}, {"content": "words"}, {"file_id": FileId("fil_1")}])
def test_an_artifact_has_content_or_a_file(source: dict[str, Any]) -> None:
    check_new_artifact(artifact(**source))


@pytest.mark.parametrize("source", [{}, {"content": "words", "file_id": FileId("fil_1")}])
def test_an_artifact_with_neither_or_both_is_rejected(source: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="either `content` or `file_id`"):
        check_new_artifact(artifact(**source))


@pytest.mark.parametrize(
    ("field", "value"),
    [("title", "x" * 501), ("media_type", "x" * 256), ("content", "x" * (MAX_ARTIFACT_CHARS + 1))],
)
def test_a_field_of_an_artifact_that_is_too_large_is_named(field: str, value: str) -> None:
    with pytest.raises(TooLarge, match=f"`{field}` may have at most {len(value) - 1} characters"):
        check_new_artifact(artifact(**{"content": "words", field: value}))


@pytest.mark.parametrize("field", ["title", "media_type", "content"])
@pytest.mark.parametrize("value", ["a\x00b", "\ud800"])
def test_text_that_a_database_cannot_store_is_rejected_in_an_artifact(field: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"`{field}`"):
        check_new_artifact(artifact(**{"content": "words", field: value}))


def test_a_file_has_from_zero_to_the_maximum_of_bytes() -> None:
    check_new_file(NewFile(name="a", content=b""))
    check_new_file(NewFile(name="a", content=bytes(MAX_FILE_BYTES)))
    with pytest.raises(TooLarge, match=f"at most {MAX_FILE_BYTES} bytes"):
        check_new_file(NewFile(name="a", content=bytes(MAX_FILE_BYTES + 1)))


@pytest.mark.parametrize("field", ["name", "media_type"])
@pytest.mark.parametrize("value", ["a\x00b", "\ud800", "x" * 501])
def test_text_that_a_database_cannot_store_is_rejected_in_a_file(field: str, value: str) -> None:
    texts = {"name": "a", "media_type": "text/plain", field: value}
    with pytest.raises(Invalid, match=f"`{field}`"):
        check_new_file(NewFile(name=texts["name"], media_type=texts["media_type"], content=b""))
