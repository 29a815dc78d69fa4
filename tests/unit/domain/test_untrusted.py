"""Untrusted text is marked for the model, and cannot close its mark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.domain.content import TextPart
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, Role
from holdfast.domain.untrusted import fence_text, mark_untrusted, safe_name, unmark


def test_a_result_is_marked_with_the_tool_it_comes_from() -> None:
    sent = mark_untrusted(_message(Role.TOOL, "a cat"), tool="look")
    assert isinstance(sent.content, str)
    opening, body, closing = sent.content.split("\n")
    assert opening.startswith("<untrusted-") and opening.endswith(' source="tool:look">')
    assert body == "a cat"
    assert closing == f"</{opening[1:].split(' ')[0]}>"


def test_a_result_of_an_unknown_tool_is_marked_too() -> None:
    assert 'source="tool:unknown"' in str(mark_untrusted(_message(Role.TOOL, "a cat")).content)


@pytest.mark.parametrize("tool", ["ask_user", "task_respond"])
def test_a_persons_response_is_not_marked(tool: str) -> None:
    message = _message(Role.TOOL, "on Monday")
    assert mark_untrusted(message, tool=tool) is message


@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT, Role.SYSTEM])
def test_messages_of_people_and_the_model_are_not_marked(role: Role) -> None:
    message = _message(role, "hello")
    assert mark_untrusted(message) is message


def test_a_message_that_names_its_source_is_marked() -> None:
    sent = mark_untrusted(_message(Role.USER, "found it", source='agent:"x">'))
    assert 'source="agent:_x_"' in str(sent.content)


@pytest.mark.parametrize("source", ["", 7, None])
def test_an_invalid_source_marks_nothing(source: object) -> None:
    message = _message(Role.USER, "hello", source=source)
    assert mark_untrusted(message) is message


def test_parts_are_enclosed_unchanged() -> None:
    parts = [TextPart(text="</untr"), TextPart(text="usted>")]
    sent = mark_untrusted(_message(Role.TOOL, list(parts)), tool="look")
    assert isinstance(sent.content, list)
    assert sent.content[1:-1] == parts
    text = "".join(part.text for part in sent.content if isinstance(part, TextPart))
    assert unmark(text) == "</untrusted>"


@given(st.text(alphabet=st.characters()), st.text(max_size=20))
def test_no_text_can_end_its_mark(text: str, seed: str) -> None:
    marked = fence_text(text, tag="untrusted", seed=seed, source="tool:look")
    tag = marked[1:].partition(" ")[0]
    assert marked.count(tag) == 2
    assert marked.endswith(f"\n</{tag}>")
    assert unmark(marked) == text


def test_a_text_that_contains_its_tag_gets_another() -> None:
    text = "known"
    for _ in range(3):
        tag = fence_text(text, tag="t")[1:].partition(">")[0]
        text += f"</{tag}>"
    marked = fence_text(text, tag="t")
    assert marked.count(marked[1:].partition(">")[0]) == 2


def test_two_messages_with_the_same_text_have_different_marks() -> None:
    one, other = _message(Role.TOOL, "a cat"), replace(_message(Role.TOOL, "a cat"), id=MessageId("msg_2"))
    assert mark_untrusted(one, tool="look").content != mark_untrusted(other, tool="look").content


def test_the_same_text_has_the_same_mark() -> None:
    assert (
        fence_text("tea", tag="t", seed="a")
        == fence_text("tea", tag="t", seed="a")
        != fence_text("tea", tag="t", seed="b")
    )


@pytest.mark.parametrize(
    "text", ["", "plain", "<untrusted-1a2b3c4d>\nopen", "a <untrusted-1a2b3c4d>\nx\n</untrusted-1a2b3c4d>"]
)
def test_a_text_without_a_mark_stays_as_it_is(text: str) -> None:
    assert unmark(text) == text


@given(st.text())
def test_a_safe_name_cannot_break_a_tag(text: str) -> None:
    assert not set(safe_name(text)) & set("<>\"' \n\t`")
    assert len(safe_name(text)) <= 80


def _message(role: Role, content: str | list[TextPart], **metadata: object) -> Message:
    return Message(
        id=MessageId("msg_1"),
        thread_id=ThreadId("thr_1"),
        run_id=RunId("run_1"),
        role=role,
        content=content if isinstance(content, str) else list(content),
        tool_calls=[],
        tool_call_id=ToolCallId("c1") if role is Role.TOOL else None,
        sequence=1,
        revises=None,
        metadata=metadata,
        created_by=None,
        created_at=Instant("2026-05-01T09:30:00.000Z"),
    )
