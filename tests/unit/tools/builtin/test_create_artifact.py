from holdfast.domain.artifact import ArtifactType, NewArtifact, check_new_artifact
from holdfast.domain.events.custom import ArtifactCreated
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.tools.builtin.notes import CREATE_ARTIFACT
from holdfast.tools.middleware import output_artifact_id, with_standard_middleware
from holdfast.tools.tool import ToolResult
from tests.support.calls import KEY, a_call

ASKED = {"type": "report", "title": "Tides", "content": "höher"}
ID = ArtifactId(derived_id("art", key=KEY))


async def test_an_artifact_is_made_under_an_id_of_the_call() -> None:
    outcome = await CREATE_ARTIFACT.run(a_call(), dict(ASKED))
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


async def test_the_same_call_makes_the_same_artifact_and_another_call_another() -> None:
    first, again, other = [(await CREATE_ARTIFACT.run(a_call(key=key), dict(ASKED))).content for key in "aab"]
    assert first == again != other


def test_it_is_not_the_artifact_of_an_output_that_is_too_long() -> None:
    assert output_artifact_id(a_call()) != ID


async def test_an_artifact_that_cannot_be_kept_is_refused() -> None:
    for wrong in ({"type": "song"}, {"title": ""}, {"title": "x" * 501}, {"content": "a\x00"}, {"content": None}):
        outcome = await with_standard_middleware(CREATE_ARTIFACT).run(a_call(), {**ASKED, **wrong})
        assert outcome.failed
        assert outcome.artifacts == ()
