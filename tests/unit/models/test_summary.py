from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.text import MAX_SUMMARY_CHARS, summarise
from tests.builders import assistant, call, result, user


def test_it_is_how_each_message_of_user_and_assistant_begins() -> None:
    conversation = [
        user("Please fix v1.2 of the parser. It fails on\nempty input."),
        assistant("", call("c1")),
        result("c1", "the whole file"),
        assistant("Done! Anything else?"),
    ]
    assert summarise(conversation) == "user: Please fix v1.2 of the parser.\nassistant: Done!"


def test_sentences_end_in_japanese_too() -> None:
    assert summarise([user("修正してください。空の入力で失敗します。")]) == "user: 修正してください。"


def test_nothing_said_is_said_so() -> None:
    assert summarise([]) == "nothing was said"


@given(
    st.lists(st.text(max_size=500).map(user) | st.text(max_size=500).map(assistant), max_size=80), st.integers(1, 9000)
)
def test_it_is_never_longer_than_it_may_be(conversation: list[object], most: int) -> None:
    summary = summarise(conversation, max_chars=most)  # type: ignore[arg-type]
    assert len(summary) <= most
    assert summary


def test_each_of_many_messages_has_a_share() -> None:
    summary = summarise([user(f"{number} " + "long " * 100) for number in range(40)])
    assert len(summary) <= MAX_SUMMARY_CHARS
    assert all(f"user: {number} long" in summary for number in range(40))
