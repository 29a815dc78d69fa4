"""The longest match between the messages of a client and a stored chain."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.api.ag_ui.messages import longest_match, to_ag_ui_messages
from holdfast.domain.events import messages as wire
from holdfast.domain.ids import MessageId
from holdfast.domain.message import STEERING_METADATA_KEY, Message, Role
from tests.unit.api.ag_ui.test_messages import message


def chain(turns: int) -> list[Message]:
    roles = [Role.USER, Role.ASSISTANT] * turns
    return [replace(message(role, f"text {number}"), id=MessageId(f"m{number}")) for number, role in enumerate(roles)]


CHAINS = st.integers(1, 6).map(chain)
NEW = wire.UserMessage(id=MessageId("new"), content="new")


@given(CHAINS, st.data())
def test_the_match_ends_where_the_list_leaves_the_chain(stored: list[Message], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(stored)))
    index, last = longest_match([*to_ag_ui_messages(stored[:length]), NEW], stored)
    assert index == length - 1
    assert last == (stored[length - 1] if length else None)


@given(CHAINS, st.data())
def test_an_edited_message_ends_the_match(stored: list[Message], data: st.DataObject) -> None:
    edited = data.draw(st.integers(0, len(stored) - 1))
    sent = to_ag_ui_messages(
        [replace(each, content="another") if index == edited else each for index, each in enumerate(stored)]
    )
    assert longest_match(sent, stored)[0] == edited - 1


@given(CHAINS, st.data())
def test_reasoning_messages_are_skipped(stored: list[Message], data: st.DataObject) -> None:
    sent = to_ag_ui_messages(stored)
    strange = wire.ReasoningMessage(id=MessageId("strange"), content="hm")
    sent.insert(data.draw(st.integers(0, len(sent) - 1)), strange)
    assert longest_match(sent, stored) == (len(stored), stored[-1])


@given(CHAINS, st.data())
def test_a_list_can_begin_within_the_chain(stored: list[Message], data: st.DataObject) -> None:
    sent = to_ag_ui_messages(stored)[data.draw(st.integers(0, len(stored) - 1)) :]
    assert longest_match(sent, stored) == (len(sent) - 1, stored[-1])


@given(st.integers(2, 6).map(chain), st.data())
def test_a_missing_turn_ends_the_match(stored: list[Message], data: st.DataObject) -> None:
    missing = 2 * data.draw(st.integers(1, len(stored) // 2 - 1))
    sent = to_ag_ui_messages(stored)
    del sent[missing]
    assert longest_match(sent, stored) == (missing - 1, stored[missing - 1])


def test_steering_messages_can_be_missing() -> None:
    stored = chain(2)
    stored[2] = replace(stored[2], metadata={STEERING_METADATA_KEY: True})
    assert longest_match(to_ag_ui_messages([*stored[:2], stored[3]]), stored) == (2, stored[3])
