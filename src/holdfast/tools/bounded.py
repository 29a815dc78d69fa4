"""A model reads so much of an output and no more: its head and its tail, and between them how much is left out.

The whole is kept as an artifact, which the note in the middle names.
"""

from msgspec.structs import replace

from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, ArtifactType, NewArtifact
from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.tool import ToolSpec
from holdfast.tools.artifacts import made
from holdfast.tools.content import as_text, readable
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapping import Go, wrap


def bounded(tool: Tool) -> Tool:
    """Return `tool`, of whose output a model reads at most what its spec allows."""
    return wrap(tool, _bound)


def output_artifact(call: Call) -> ArtifactId:
    """Return the id under which the whole output of `call` is kept, if it is too long."""
    # Not the ids that the tool itself may derive from the key, for artifacts of its own.
    return ArtifactId(derived_id("art", key=f"{call.key}.output"))


async def _bound(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
    outcome = await go()
    if outcome.wait is not None:
        return outcome
    content = readable(outcome.content)
    text = as_text(content)
    if len(text) <= spec.output_limit:
        return outcome if content == outcome.content else replace(outcome, content=content)
    artifact = _whole(spec, call, text, media_type="text/plain" if isinstance(content, str) else "application/json")
    return replace(
        outcome,
        content=_shortened(text, artifact, most=spec.output_limit),
        artifacts=[*outcome.artifacts, artifact],
        events=[*outcome.events, made(output_artifact(call), artifact)],
    )


def _whole(spec: ToolSpec, call: Call, text: str, *, media_type: str) -> NewArtifact:
    return NewArtifact(
        id=output_artifact(call),
        type=ArtifactType.OTHER,
        title=f"output of {spec.name}",
        content=text[:MAX_ARTIFACT_CHARS],
        media_type=media_type,
        metadata={"tool_call_id": call.id},
    )


def _shortened(text: str, artifact: NewArtifact, *, most: int) -> str:
    """Return head and tail of `text` around a note, together at most `most` characters."""
    # The note about leaving everything out is the longest there can be, so that what is left over fits for certain.
    room = most - len(_note(len(text), text, artifact))
    if room <= 0:
        return _note(len(text), text, artifact).strip()[:most]
    head, tail = room - room // 2, room // 2
    return text[:head] + _note(len(text) - room, text, artifact) + text[len(text) - tail :]


def _note(cut: int, text: str, artifact: NewArtifact) -> str:
    kept = "all" if len(text) <= MAX_ARTIFACT_CHARS else f"the first {MAX_ARTIFACT_CHARS}"
    return f"\n[{cut} of {len(text)} characters are left out here: artifact `{artifact.id}` has {kept} of them]\n"
