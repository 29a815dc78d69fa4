from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.message import (
    MAX_INPUT_MESSAGES,
    Message,
    NewMessage,
    Role,
    check_input_messages,
    check_message_ids,
    unanswered_calls,
)
from tests.builders import assistant, call, result, user


def stored(new: NewMessage) -> Message:
    """Return `new` as a stored message."""
    return Message(
        id=MessageId("msg"),
        thread_id=ThreadId("thr"),
        run_id=RunId("run"),
        role=new.role,
        content=new.content,
        tool_calls=new.tool_calls,
        tool_call_id=new.tool_call_id,
        sequence=0,
        revises=None,
        metadata={},
        created_by=None,
        created_at=Instant("2026-01-01T00:00:00.000Z"),
    )


def open_after(*messages: NewMessage) -> list[str]:
    return [call.id for call in unanswered_calls([stored(message) for message in messages])]


def test_a_call_is_open_until_a_later_message_answers_it() -> None:
    calls = assistant("", call("a"), call("b"), call("c"))
    assert open_after(user("hi"), calls) == ["a", "b", "c"]
    assert open_after(calls, result("b")) == ["a", "c"]
    assert open_after(calls, result("b"), user("and?"), result("a"), result("c")) == []


def test_an_answer_before_the_call_answers_nothing() -> None:
    assert open_after(result("a"), assistant("", call("a"))) == ["a"]


def test_only_the_last_assistant_message_can_have_open_calls() -> None:
    assert open_after(assistant("", call("a")), assistant("never mind")) == []
    assert open_after(assistant("", call("a")), assistant("", call("b")), result("a")) == ["b"]


@pytest.mark.parametrize("messages", [(), (user("hi"),), (user("hi"), assistant("hello")), (result("a"),)])
def test_a_conversation_without_calls_has_no_open_call(messages: tuple[NewMessage, ...]) -> None:
    assert open_after(*messages) == []


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef")))
def test_open_calls_are_the_unanswered_ones_in_order(calls: list[str], answered: list[str]) -> None:
    messages = [assistant("", *map(call, calls)), *map(result, answered)]
    assert open_after(*messages) == [id for id in calls if id not in answered]


def test_a_run_may_start_with_user_system_and_assistant_messages() -> None:
    check_input_messages([])
    check_input_messages(
        [NewMessage(role=Role.SYSTEM, content="be kind"), user("hi", id="m1"), assistant("hello"), user("go on")]
    )


@pytest.mark.parametrize(
    "message",
    [
        result("a"),
        assistant("", call("a")),
        NewMessage(role=Role.TOOL, content="seen"),
        NewMessage(role=Role.USER, content="seen", tool_call_id=ToolCallId("a")),
    ],
)
def test_input_with_an_unpaired_call_or_result_is_rejected(message: NewMessage) -> None:
    with pytest.raises(Invalid, match="each tool call must be followed by its result"):
        check_input_messages([user("hi"), message])


def test_input_may_contain_answered_calls() -> None:
    check_input_messages([user("hi"), assistant("", call("a"), call("b")), result("b"), result("a"), user("go on")])
    check_input_messages([assistant("", call("a")), result("a"), assistant("", call("a")), result("a")])


@pytest.mark.parametrize(
    "messages",
    [
        [assistant("", call("a")), user("well?"), result("a")],
        [assistant("", call("a")), result("b")],
        [assistant("", call("a")), result("a"), result("a")],
        [assistant("", call("a"), call("b")), result("a")],
        [assistant("", call("a"), call("a")), result("a")],
        [NewMessage(role=Role.USER, content="", tool_calls=[call("a")]), result("a")],
    ],
)
def test_in_the_input_each_call_is_answered_once_right_after_it(messages: list[NewMessage]) -> None:
    with pytest.raises(Invalid, match="each tool call must be followed by its result"):
        check_input_messages(messages)


@given(st.lists(st.lists(st.sampled_from("abcd"), unique=True), min_size=1), st.randoms(), st.data())
def test_input_is_valid_if_and_only_if_every_call_is_answered(
    calls: list[list[str]], chance: Random, data: st.DataObject
) -> None:
    messages: list[NewMessage] = []
    for ids in calls:
        messages += [user("go"), assistant("", *(call(id) for id in ids))]
        messages += [result(id) for id in chance.sample(ids, len(ids))]
    check_input_messages(messages)
    results = [index for index, message in enumerate(messages) if message.role is Role.TOOL]
    if results:
        del messages[data.draw(st.sampled_from(results))]
        with pytest.raises(Invalid):
            check_input_messages(messages)


def test_a_run_starts_with_at_most_the_maximum_of_messages() -> None:
    check_input_messages([user("hi")] * MAX_INPUT_MESSAGES)
    with pytest.raises(Invalid, match=f"at most {MAX_INPUT_MESSAGES} messages"):
        check_input_messages([user("hi")] * (MAX_INPUT_MESSAGES + 1))


def test_a_chosen_id_is_well_formed_and_chosen_once() -> None:
    check_message_ids([user("a", id="m1"), user("b"), user("c"), user("d", id="m2")])
    with pytest.raises(Invalid, match="two messages have the same id"):
        check_message_ids([user("a", id="m1"), user("b", id="m1")])
    with pytest.raises(Invalid, match=r"`messages\.id` must be"):
        check_message_ids([user("a", id="no spaces")])
