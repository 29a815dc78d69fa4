"""Artifacts that calls make. Their ids derive from the key of the call, so that none is made twice."""

from typing import Final

from holdfast.domain.artifact import NewArtifact
from holdfast.domain.events.custom import ArtifactCreated
from holdfast.domain.ids import ArtifactId

VERSION: Final = 1
"""The id belongs to one call: there is no earlier version."""


def made(artifact_id: ArtifactId, new: NewArtifact) -> ArtifactCreated:
    """Return the event of `new`, which has a content."""
    return ArtifactCreated(
        artifact_id=artifact_id,
        type=new.type,
        title=new.title,
        version=VERSION,
        media_type=new.media_type,
        size=len((new.content or "").encode()),
    )
