import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import artifact
from holdfast.domain.artifact import ArtifactType, NewArtifact, check_new_artifact
from holdfast.domain.content import Json
from holdfast.domain.events.custom import ArtifactCreated
from holdfast.domain.tool import ToolClass
from holdfast.tools.content import as_text, sanitize
from holdfast.tools.middleware import limit_output, output_artifact_id
from holdfast.tools.tool import TimerWait, ToolResult, wrap_tool
from tests.support.calls import NOW, Recorder, a_call, a_spec

CALL = a_call()
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=600)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ANY_TEXT, inner, max_size=5),
    max_leaves=10,
)


async def cut(content: Json, *, limit: int, **outcome: Json) -> ToolResult:
    spec = a_spec(kind=ToolClass.EFFECTFUL, output_limit=limit)
    tool = Recorder(ToolResult(content=content, **outcome), spec=spec)
    return await wrap_tool(tool, limit_output).run(CALL, {})


@given(ANY_JSON, st.integers(1, 1000))
async def test_no_output_exceeds_the_limit_and_none_is_lost(content: Json, limit: int) -> None:
    outcome = await cut(content, limit=limit)
    text, whole = as_text(outcome.content), as_text(sanitize(content))
    assert len(text) <= limit
    text.encode()
    if not outcome.artifacts:
        assert outcome.content == sanitize(content)
    else:
        (kept,) = outcome.artifacts
        check_new_artifact(kept)
        assert kept.content == whole
        assert len(whole) > limit


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0[]"), min_size=301), st.integers(200, 300))
async def test_a_truncated_output_has_its_head_and_tail(content: str, limit: int) -> None:
    text = (await cut(content, limit=limit)).content
    head, tail = text.split("\n[", 1)[0], text.rsplit("]\n", 1)[1]
    note = text[len(head) : len(text) - len(tail)]
    assert content.startswith(head)
    assert content.endswith(tail)
    assert 0 <= len(head) - len(tail) <= 1
    assert f"{len(content) - len(head) - len(tail)} of {len(content)} characters are left out here" in note
    assert f"artifact `{output_artifact_id(CALL)}` has all of them" in note


async def test_an_output_within_the_limit_stays_as_it_is() -> None:
    assert await cut({"a": 1}, limit=7) == ToolResult(content={"a": 1})
    assert await cut("1234567", limit=7) == ToolResult(content="1234567")
    assert await cut(None, limit=7) == ToolResult()


async def test_the_whole_output_is_an_artifact_with_an_id_from_the_call_key() -> None:
    outcome = await cut({"text": "é" * 1000}, limit=300)
    (kept,) = outcome.artifacts
    assert kept == NewArtifact(
        id=output_artifact_id(CALL),
        type=ArtifactType.OTHER,
        title="output of look",
        content=msgspec.json.encode({"text": "é" * 1000}).decode(),
        media_type="application/json",
        metadata={"tool_call_id": CALL.id},
    )
    assert outcome.events == [
        ArtifactCreated(
            artifact_id=output_artifact_id(CALL),
            type=ArtifactType.OTHER,
            title="output of look",
            version=1,
            media_type="application/json",
            size=2011,
        )
    ]
    assert (await cut("x" * 1000, limit=300)).artifacts[0].media_type == "text/plain"


async def test_artifacts_of_the_tool_itself_are_kept() -> None:
    own = NewArtifact(type=ArtifactType.DOC, title="own", content="")
    outcome = await cut("x" * 1000, limit=300, artifacts=[own], failed=True, values={"todo": {}})
    assert outcome.artifacts[0] is own
    assert (outcome.failed, outcome.values, len(outcome.artifacts)) == (True, {"todo": {}}, 2)


async def test_a_limit_below_the_note_leaves_a_part_of_the_note() -> None:
    assert (await cut("x" * 1000, limit=30)).content == "[1000 of 1000 characters are l"


async def test_invalid_characters_are_replaced() -> None:
    assert (await cut("a\x00b\ud800c", limit=100)).content == "a�b�c"
    assert (await cut({"a\x00": ["\udfff", 1]}, limit=100)).content == {"a�": ["�", 1]}


async def test_an_output_too_long_for_an_artifact_is_cut_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.middleware.MAX_ARTIFACT_CHARS", 500)
    outcome = await cut("x" * 1000, limit=300)
    assert outcome.artifacts[0].content == "x" * 500
    assert "has the first 500 of them" in outcome.content
    assert artifact.MAX_ARTIFACT_CHARS > 500


async def test_a_call_that_waits_has_no_output_yet() -> None:
    wait = TimerWait(timer_id=output_artifact_id(CALL), until=NOW)  # type: ignore[arg-type]
    assert await cut(None, limit=1, wait=wait) == ToolResult(wait=wait)
