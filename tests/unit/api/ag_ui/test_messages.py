"""A message that was sent to a client is recognized when it comes back, and no other is."""

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


def message(role: Role, content: Content, **overrides: Any) -> Message:
    fields: dict[str, Any] = {"tool_calls": [], "tool_call_id": None, "metadata": {}, **overrides}
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
        **fields,
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
def test_a_message_matches_its_ag_ui_form(stored: Message) -> None:
    (sent,) = to_ag_ui_messages([stored])
    decoded = msgspec.json.decode(msgspec.json.encode(sent), type=wire.AgUiMessage)
    assert same_message(decoded, stored)


@given(st.lists(MESSAGES, max_size=4))
def test_the_ag_ui_form_is_valid(stored: list[Message]) -> None:
    event = MessagesSnapshot(messages=to_ag_ui_messages(stored))
    MessagesSnapshotEvent.model_validate_json(msgspec.json.encode(event))


@given(TEXTS, TEXTS, st.sampled_from([Role.USER, Role.SYSTEM]))
def test_another_text_of_a_user_is_another_message(sent_text: str, stored_text: str, role: Role) -> None:
    assume(sent_text != stored_text)
    (sent,) = to_ag_ui_messages([message(role, sent_text)])
    assert not same_message(sent, message(role, stored_text))


@given(TEXTS, TEXTS)
def test_a_prefix_of_an_assistant_message_matches(beginning: str, rest: str) -> None:
    sent = wire.AssistantMessage(id=MessageId("m"), content=beginning)
    assert same_message(sent, message(Role.ASSISTANT, beginning + rest))
    assert same_message(sent, message(Role.ASSISTANT, beginning)) or rest


def test_a_text_part_matches_the_same_string() -> None:
    sent = wire.UserMessage(id=MessageId("m"), content=[TextPart(text="hi")])
    assert same_message(sent, message(Role.USER, "hi"))


def test_messages_of_different_roles_do_not_match() -> None:
    sent = wire.UserMessage(id=MessageId("m"), content="hi")
    assert not same_message(sent, message(Role.SYSTEM, "hi"))
    assert not same_message(wire.ReasoningMessage(id=MessageId("m"), content="hi"), message(Role.ASSISTANT, "hi"))


def test_tool_results_match_by_tool_call_id() -> None:
    stored = message(Role.TOOL, "42", tool_call_id=ToolCallId("c"))
    assert same_message(wire.ToolMessage(id=MessageId("x"), content="?", tool_call_id=ToolCallId("c")), stored)
    assert not same_message(wire.ToolMessage(id=MessageId("m"), content="42", tool_call_id=ToolCallId("d")), stored)


def test_context_messages_are_not_sent_to_the_client() -> None:
    assert to_ag_ui_messages([message(Role.SYSTEM, "page", metadata={CONTEXT_METADATA_KEY: True})]) == []


@given(TEXTS | PARTS)
def test_a_client_message_is_stored_unchanged(content: Content) -> None:
    sent_text = to_new_message(
        wire.UserMessage(id=MessageId("m"), content=content, metadata={"a": 1}), revises=MessageId("m")
    )
    assert (sent_text.role, sent_text.content, sent_text.metadata, sent_text.revises) == (
        Role.USER,
        content,
        {"a": 1},
        "m",
    )
