from holdfast.domain.artifact import ArtifactType, NewArtifact, check_new_artifact
from holdfast.domain.events.custom import ArtifactCreated
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.tools.builtin.notes import CREATE_ARTIFACT
from holdfast.tools.middleware import output_artifact_id, with_standard_middleware
from holdfast.tools.tool import ToolResult
from tests.support.calls import KEY, a_call

ARGUMENTS = {"type": "report", "title": "Tides", "content": "höher"}
ID = ArtifactId(derived_id("art", key=KEY))


async def test_the_artifact_id_derives_from_the_call_key() -> None:
    outcome = await CREATE_ARTIFACT.run(a_call(), dict(ARGUMENTS))
    (new,) = outcome.artifacts
    check_new_artifact(new)
    assert outcome == ToolResult(
        content={"artifact_id": ID, "version": 1},
        artifacts=[NewArtifact(id=ID, type=ArtifactType.REPORT, title="Tides", content="höher")],
        events=[
            ArtifactCreated(
                artifact_id=ID, type=ArtifactType.REPORT, title="Tides", version=1, media_type="text/plain", size=6
            )
        ],
    )


async def test_each_call_has_its_own_artifact_id() -> None:
    first, again, other = [(await CREATE_ARTIFACT.run(a_call(key=key), dict(ARGUMENTS))).content for key in "aab"]
    assert first == again != other


def test_the_id_differs_from_that_of_a_truncated_output() -> None:
    assert output_artifact_id(a_call()) != ID


async def test_an_invalid_artifact_is_refused() -> None:
    for wrong in ({"type": "song"}, {"title": ""}, {"title": "x" * 501}, {"content": "a\x00"}, {"content": None}):
        outcome = await with_standard_middleware(CREATE_ARTIFACT).run(a_call(), {**ARGUMENTS, **wrong})
        assert outcome.failed
        assert outcome.artifacts == ()
