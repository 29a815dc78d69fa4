"""`ConversationWindow` and the position of a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.context.conversation import ConversationWindow, TurnPosition, read_turn, starts_turn
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.message import STEERING_METADATA_KEY, Message, Role
from tests.unit.agent.builders import RUN, Log, call
from tests.unit.agent.fakes import LEASE, FakeJournal

SPEAKERS = st.lists(st.sampled_from(["user", "steering", "assistant"]), max_size=30)


def messages_of(speakers: list[str], *, first: int = 0) -> list[Message]:
    """Return messages of these speakers."""
    log = Log(first=first)
    for each in speakers:
        role = Role.ASSISTANT if each == "assistant" else Role.USER
        log.add(role, each, metadata={STEERING_METADATA_KEY: True} if each == "steering" else None)
    return log.messages


def talk(log: Log, *, run: RunId = RUN) -> ConversationWindow:
    """Return the conversation of a run."""
    return ConversationWindow(run, log.messages, turn=TurnPosition(goal=None, position=0), whole=True)


@given(speakers=SPEAKERS, window_size=st.integers(1, 30))
async def test_the_turn_position_does_not_depend_on_the_size_of_the_window(
    speakers: list[str], window_size: int
) -> None:
    messages = messages_of(speakers)
    journal = FakeJournal(messages)
    turn = await read_turn(journal, LEASE, messages[-window_size:])
    last = max((index for index, each in enumerate(speakers) if each == "user"), default=None)
    assert turn.goal == (None if last is None else messages[last])
    assert turn.position == speakers[0 if last is None else last :].count("assistant")
    extended = ConversationWindow(RUN, [], turn=TurnPosition(goal=None, position=0), whole=True)
    extended.add(messages)
    assert (extended.goal, extended.position) == (turn.goal, turn.position)


async def test_no_more_history_is_read_than_needed() -> None:
    messages = messages_of(["user", "assistant"] * 300)
    journal = FakeJournal(messages)
    await read_turn(journal, LEASE, messages[-2:])
    assert journal.history_requests == []
    await read_turn(journal, LEASE, messages[-1:])
    assert journal.history_requests == [599]


@pytest.mark.parametrize(
    ("role", "metadata", "begins"), [(Role.USER, {}, True), (Role.USER, {STEERING_METADATA_KEY: True}, False)]
)
def test_a_steering_message_starts_no_turn(role: Role, metadata: dict[str, bool], begins: bool) -> None:
    assert starts_turn(Log().add(role, "x", metadata=metadata)) is begins


def test_unanswered_calls_are_open() -> None:
    log = Log()
    log.user("go")
    call_message = log.add(Role.ASSISTANT, "", call("a"), call("b"), call("c"))
    log.add(Role.TOOL, "seen", call_id="b")
    assert talk(log).open_exchange() == (call_message, [call("a"), call("c")])
    for name in "ac":
        log.add(Role.TOOL, "seen", call_id=name)
    assert talk(log).open_exchange() is None


def test_calls_of_another_run_are_not_open() -> None:
    log = Log(run=RunId("run_before"))
    log.add(Role.ASSISTANT, "", call("a"))
    assert talk(log).open_exchange() is None
    assert talk(log, run=RunId("run_before")).open_exchange() is not None


def test_the_window_knows_the_ids_of_its_calls() -> None:
    log = Log()
    log.exchange(call("a"))
    conversation = talk(log)
    later = Log(first=10)
    later.exchange(call("b"))
    conversation.add(later.messages)
    assert [conversation.has_call(ToolCallId(name)) for name in "abc"] == [True, True, False]


def test_messages_that_a_summary_replaces_are_dropped_except_the_last() -> None:
    log = Log()
    for number in range(6):
        log.user(str(number))
    conversation = talk(log)
    conversation.drop_through(3)
    assert [message.content for message in conversation.messages] == ["3", "4", "5"]
    assert not conversation.whole
    conversation.drop_through(3)
    assert len(conversation.messages) == 3
