"""A message that is shown to a client is known again when it comes back, and nothing else is taken for it."""

from typing import Any

import msgspec
from ag_ui.core import MessagesSnapshotEvent
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.api.ag_ui.messages import CONTEXT_METADATA_KEY, same_message, to_ag_ui_messages, to_new_message
from holdfast.domain.content import Content, ImagePart, TextPart, UrlSource
from holdfast.domain.events import MessagesSnapshot
from holdfast.domain.events import messages as wire
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, Role, ToolCall

TEXTS = st.text(max_size=20)
PARTS: st.SearchStrategy[Content] = st.lists(
    st.builds(TextPart, text=TEXTS) | st.builds(ImagePart, source=st.builds(UrlSource, value=TEXTS)), max_size=3
).map(list)


def message(role: Role, content: Content, **more: Any) -> Message:
    given: dict[str, Any] = {"tool_calls": [], "tool_call_id": None, "metadata": {}, **more}
    return Message(
        id=MessageId("m"),
        thread_id=ThreadId("t"),
        run_id=RunId("r"),
        role=role,
        content=content,
        sequence=0,
        revises=None,
        created_by=None,
        created_at=Instant("2026-01-01T00:00:00.000Z"),
        **given,
    )


CALLS = st.lists(
    st.builds(ToolCall, id=st.just(ToolCallId("c")), name=TEXTS, arguments=st.dictionaries(TEXTS, TEXTS, max_size=2)),
    max_size=2,
)
MESSAGES = st.one_of(
    st.builds(message, st.just(Role.USER), TEXTS | PARTS),
    st.builds(message, st.just(Role.SYSTEM), TEXTS),
    st.builds(message, st.just(Role.ASSISTANT), TEXTS, tool_calls=CALLS),
    st.builds(message, st.just(Role.TOOL), TEXTS, tool_call_id=st.just(ToolCallId("c"))),
)


@given(MESSAGES)
def test_what_is_shown_is_known_again(ours: Message) -> None:
    (theirs,) = to_ag_ui_messages([ours])
    back = msgspec.json.decode(msgspec.json.encode(theirs), type=wire.AgUiMessage)
    assert same_message(back, ours)


@given(st.lists(MESSAGES, max_size=4))
def test_what_is_shown_is_legal(ours: list[Message]) -> None:
    event = MessagesSnapshot(messages=to_ag_ui_messages(ours))
    MessagesSnapshotEvent.model_validate_json(msgspec.json.encode(event))


@given(TEXTS, TEXTS, st.sampled_from([Role.USER, Role.SYSTEM]))
def test_what_a_person_said_otherwise_is_another_message(said: str, kept: str, role: Role) -> None:
    assume(said != kept)
    (theirs,) = to_ag_ui_messages([message(role, said)])
    assert not same_message(theirs, message(role, kept))


@given(TEXTS, TEXTS)
def test_of_an_answer_its_beginning_is_enough(beginning: str, rest: str) -> None:
    theirs = wire.AssistantMessage(id=MessageId("m"), content=beginning)
    assert same_message(theirs, message(Role.ASSISTANT, beginning + rest))
    assert same_message(theirs, message(Role.ASSISTANT, beginning)) or rest


def test_a_text_is_the_same_as_a_part_or_as_a_string() -> None:
    theirs = wire.UserMessage(id=MessageId("m"), content=[TextPart(text="hi")])
    assert same_message(theirs, message(Role.USER, "hi"))


def test_nobody_takes_one_role_for_another() -> None:
    theirs = wire.UserMessage(id=MessageId("m"), content="hi")
    assert not same_message(theirs, message(Role.SYSTEM, "hi"))
    assert not same_message(wire.ReasoningMessage(id=MessageId("m"), content="hi"), message(Role.ASSISTANT, "hi"))


def test_the_result_of_a_call_is_known_by_its_call() -> None:
    ours = message(Role.TOOL, "42", tool_call_id=ToolCallId("c"))
    assert same_message(wire.ToolMessage(id=MessageId("x"), content="?", tool_call_id=ToolCallId("c")), ours)
    assert not same_message(wire.ToolMessage(id=MessageId("m"), content="42", tool_call_id=ToolCallId("d")), ours)


def test_what_the_application_showed_is_not_shown_to_it() -> None:
    assert to_ag_ui_messages([message(Role.SYSTEM, "page", metadata={CONTEXT_METADATA_KEY: True})]) == []


@given(TEXTS | PARTS)
def test_what_a_client_says_is_kept_as_it_is(content: Content) -> None:
    said = to_new_message(
        wire.UserMessage(id=MessageId("m"), content=content, metadata={"a": 1}), revises=MessageId("m")
    )
    assert (said.role, said.content, said.metadata, said.revises) == (Role.USER, content, {"a": 1}, "m")
