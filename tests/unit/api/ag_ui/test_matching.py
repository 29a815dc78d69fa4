"""How far the list of a client agrees with a chain."""

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
def test_a_list_agrees_up_to_where_it_leaves_the_chain(ours: list[Message], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(ours)))
    index, last = longest_match([*to_ag_ui_messages(ours[:length]), NEW], ours)
    assert index == length - 1
    assert last == (ours[length - 1] if length else None)


@given(CHAINS, st.data())
def test_an_edited_message_ends_the_agreement_whatever_follows(ours: list[Message], data: st.DataObject) -> None:
    edited = data.draw(st.integers(0, len(ours) - 1))
    theirs = to_ag_ui_messages(
        [replace(each, content="another") if place == edited else each for place, each in enumerate(ours)]
    )
    assert longest_match(theirs, ours)[0] == edited - 1


@given(CHAINS, st.data())
def test_what_nobody_said_is_passed_over(ours: list[Message], data: st.DataObject) -> None:
    theirs = to_ag_ui_messages(ours)
    strange = wire.ReasoningMessage(id=MessageId("strange"), content="hm")
    theirs.insert(data.draw(st.integers(0, len(theirs) - 1)), strange)
    assert longest_match(theirs, ours) == (len(ours), ours[-1])


@given(CHAINS, st.data())
def test_a_list_may_begin_late(ours: list[Message], data: st.DataObject) -> None:
    theirs = to_ag_ui_messages(ours)[data.draw(st.integers(0, len(ours) - 1)) :]
    assert longest_match(theirs, ours) == (len(theirs) - 1, ours[-1])


@given(st.integers(2, 6).map(chain), st.data())
def test_a_turn_that_the_client_has_not_ends_the_agreement(ours: list[Message], data: st.DataObject) -> None:
    left_out = 2 * data.draw(st.integers(1, len(ours) // 2 - 1))
    theirs = to_ag_ui_messages(ours)
    del theirs[left_out]
    assert longest_match(theirs, ours) == (left_out - 1, ours[left_out - 1])


def test_what_a_run_was_told_on_its_way_need_not_be_there() -> None:
    ours = chain(2)
    ours[2] = replace(ours[2], metadata={STEERING_METADATA_KEY: True})
    assert longest_match(to_ag_ui_messages([*ours[:2], ours[3]]), ours) == (2, ours[3])
