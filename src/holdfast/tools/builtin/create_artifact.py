"""`create_artifact`: a result of the run that is kept."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, ArtifactType, NewArtifact, check_new_artifact
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.tool import ToolClass
from holdfast.tools.artifacts import VERSION, made
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_TITLE: Final = 500


class CreateArtifact(Arguments, frozen=True, kw_only=True):
    """Keep a result of your work, such as a report, a patch or a piece of code, where people find it later."""

    type: Annotated[ArtifactType, Meta(description="What kind of result it is.")]
    title: Annotated[str, Meta(min_length=1, max_length=MAX_TITLE, description="A title to find it by.")]
    content: Annotated[str, Meta(max_length=MAX_ARTIFACT_CHARS, description="The whole text of it.")]


async def _create(call: Call, asked: CreateArtifact) -> Outcome:
    artifact = ArtifactId(derived_id("art", key=call.key))
    new = NewArtifact(id=artifact, type=asked.type, title=asked.title, content=asked.content)
    check_new_artifact(new)
    return Outcome(content={"artifact_id": artifact, "version": VERSION}, artifacts=[new], events=[made(artifact, new)])


SPEC: Final = spec_of(CreateArtifact, name="create_artifact", kind=ToolClass.TRANSACTIONAL)
CREATE_ARTIFACT: Final = TypedTool(SPEC, CreateArtifact, run=_create)
