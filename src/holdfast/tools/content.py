"""Tool output as text for the model, artifact events, and hints for misspelt names.

The id of an artifact derives from the key of its call, so the same call never creates two.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import msgspec

from holdfast.domain.artifact import DEFAULT_MEDIA_TYPE, NewArtifact
from holdfast.domain.content import Json
from holdfast.domain.events.custom import ArtifactCreated

# Databases reject NUL, and encoders reject half of a surrogate pair.
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")


def as_text(content: Json) -> str:
    """Return a text as it is, and anything else as JSON."""
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def sanitize(content: Json) -> Json:
    """Return `content` with characters that cannot be stored or sent replaced by `�`."""
    match content:
        case str():
            return _UNSTORABLE.sub("�", content)
        case dict():
            return {sanitize(name): sanitize(part) for name, part in content.items()}
        case list() | tuple():
            return [sanitize(part) for part in content]
        case _:
            return content


FIRST_ARTIFACT_VERSION: Final = 1
"""An artifact id that derives from a call has no earlier version."""


def artifact_created_event(
    new: NewArtifact, *, version: int = FIRST_ARTIFACT_VERSION, size: int | None = None
) -> ArtifactCreated:
    """Return the event for a new artifact, which has an id; `size` is that of its file, if it has one."""
    assert new.id is not None
    return ArtifactCreated(
        artifact_id=new.id,
        type=new.type,
        title=new.title,
        version=version,
        media_type=new.media_type or DEFAULT_MEDIA_TYPE,
        size=len((new.content or "").encode()) if size is None else size,
    )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint to append to an error message, or an empty text if no name is similar."""
    similar = get_close_matches(name, list(names), n=3)
    return f": did you mean {' or '.join(f'`{each}`' for each in similar)}?" if similar else ""
