from msgspec.structs import replace

from holdfast.domain.artifact import Artifact, ArtifactType, File, NewArtifact, check_new_artifact
from holdfast.domain.content import Json
from holdfast.domain.events.custom import ArtifactCreated
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId
from holdfast.tools.builtin.notes import create_artifact
from holdfast.tools.middleware import output_artifact_id, with_standard_middleware
from holdfast.tools.tool import ToolResult
from tests.support.calls import KEY, NOW, a_call
from tests.unit.tools.builtin.fake_library import FakeLibrary

ARGUMENTS = {"type": "report", "title": "Tides", "content": "höher"}
TOOL = create_artifact(FakeLibrary(), None)
ID = ArtifactId(derived_id("art", key=KEY))


async def test_the_artifact_id_derives_from_the_call_key() -> None:
    outcome = await TOOL.run(a_call(), dict(ARGUMENTS))
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
    first, again, other = [(await TOOL.run(a_call(key=key), dict(ARGUMENTS))).content for key in "aab"]
    assert first == again != other


def test_the_id_differs_from_that_of_a_truncated_output() -> None:
    assert output_artifact_id(a_call()) != ID


async def test_an_invalid_artifact_is_refused() -> None:
    missing: list[dict[str, Json]] = [{name: None} for name in ("content", "type", "title")]
    wrong_values: list[dict[str, Json]] = [
        {"title": ""},
        {"file_id": "fil_1"},
        {"type": "song"},
        {"title": ""},
        {"title": "x" * 501},
        {"content": "a\x00"},
        {"file_id": "fil_1"},
    ]
    for wrong in (*missing, *wrong_values):
        outcome = await with_standard_middleware(TOOL).run(a_call(), {**ARGUMENTS, **wrong})
        assert outcome.failed
        assert outcome.artifacts == ()


SPACE = SpaceId("spc_1")
PICTURE = File(
    id=FileId("fil_1"),
    space_id=SPACE,
    name="tides.png",
    media_type="image/png",
    digest="d",
    size=9,
    created_by=None,
    created_at=NOW,
)
SECOND_VERSION = Artifact(
    id=ArtifactId("art_1"),
    run_id=RunId("run_0"),
    space_id=SPACE,
    type=ArtifactType.REPORT,
    title="Tides",
    version=2,
    content=None,
    file_id=None,
    media_type="text/plain",
    digest="d",
    size=1,
    metadata={"source": "harbour"},
    created_by=None,
    created_at=NOW,
)


async def test_a_file_is_an_artifact_with_its_media_type_and_size() -> None:
    arguments = {"type": "report", "title": "Tides", "file_id": "fil_1", "metadata": {"year": 2026}}
    outcome = await create_artifact(FakeLibrary(file=PICTURE), None).run(a_call(), arguments)
    (new,), (event,) = outcome.artifacts, outcome.events
    assert (new.file_id, new.content, new.media_type, new.metadata) == ("fil_1", None, "image/png", {"year": 2026})
    assert isinstance(event, ArtifactCreated)
    assert (event.media_type, event.size, event.version) == ("image/png", 9, 1)


async def test_a_new_version_keeps_what_is_left_out() -> None:
    tool = create_artifact(FakeLibrary(artifact=SECOND_VERSION), None)
    outcome = await tool.run(a_call(), {"artifact_id": "art_1", "content": "higher"})
    assert outcome.content == {"artifact_id": "art_1", "version": 3}
    (new,) = outcome.artifacts
    assert (new.id, new.type, new.title, new.metadata) == ("art_1", "report", "Tides", {"source": "harbour"})
    changed = {"artifact_id": "art_1", "content": "x", "title": "Ebb", "type": "doc", "metadata": {}}
    (new,) = (await tool.run(a_call(), changed)).artifacts
    assert (new.type, new.title, new.metadata) == ("doc", "Ebb", {})


async def test_a_new_version_without_a_source_keeps_that_of_the_earlier_one() -> None:
    text = replace(SECOND_VERSION, content="low", media_type="text/markdown", size=3)
    picture = replace(SECOND_VERSION, file_id=FileId("fil_1"), media_type="image/png", size=9)
    for earlier in (text, picture):
        outcome = await create_artifact(FakeLibrary(artifact=earlier), None).run(
            a_call(), {"artifact_id": "art_1", "title": "Ebb"}
        )
        (new,), (event,) = outcome.artifacts, outcome.events
        check_new_artifact(new)
        assert (new.title, new.content, new.file_id) == ("Ebb", earlier.content, earlier.file_id)
        assert isinstance(event, ArtifactCreated)
        assert new.media_type == event.media_type == earlier.media_type
        assert (event.size, event.version) == (earlier.size, 3)


async def test_an_artifact_with_no_source_or_two_is_refused_by_their_names() -> None:
    tool = with_standard_middleware(create_artifact(FakeLibrary(file=PICTURE), None))
    for sources in ({}, {"content": "x", "path": "a.txt"}, {"content": "x", "file_id": "fil_1"}):
        outcome = await tool.run(a_call(), {"type": "report", "title": "Tides", **sources})
        assert outcome.content == "INVALID: an artifact needs one of `content`, `path` and `file_id`: give exactly one"


async def test_versions_of_one_message_are_counted() -> None:
    call = replace(a_call(), pending_artifacts=[ArtifactId("art_0"), ArtifactId("art_1")])
    outcome = await create_artifact(FakeLibrary(artifact=SECOND_VERSION), None).run(
        call, {"artifact_id": "art_1", "content": "x"}
    )
    assert outcome.content == {"artifact_id": "art_1", "version": 4}


async def test_a_missing_artifact_or_file_is_refused() -> None:
    tool = with_standard_middleware(create_artifact(FakeLibrary(artifact=SECOND_VERSION), None))
    for wrong in ({"artifact_id": "art_2"}, {"file_id": "fil_2", "content": None}):
        outcome = await tool.run(a_call(), {**ARGUMENTS, **wrong})
        assert outcome.failed and outcome.content.startswith("NOT_FOUND: ")
