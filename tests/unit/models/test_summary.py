from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.text import MAX_SUMMARY_CHARS, summarise
from tests.builders import assistant, call, result, user


def test_a_summary_is_the_first_sentence_of_each_user_and_assistant_message() -> None:
    conversation = [
        user("Please fix v1.2 of the parser. It fails on\nempty input."),
        assistant("", call("c1")),
        result("c1", "the whole file"),
        assistant("Done! Anything else?"),
    ]
    assert summarise(conversation) == "user: Please fix v1.2 of the parser.\nassistant: Done!"


def test_sentences_end_in_japanese_too() -> None:
    assert summarise([user("修正してください。空の入力で失敗します。")]) == "user: 修正してください。"


def test_an_empty_conversation_has_a_summary() -> None:
    assert summarise([]) == "no messages"


@given(
    st.lists(st.text(max_size=500).map(user) | st.text(max_size=500).map(assistant), max_size=80), st.integers(1, 9000)
)
def test_a_summary_is_never_longer_than_the_limit(conversation: list[object], most: int) -> None:
    summary = summarise(conversation, max_chars=most)  # type: ignore[arg-type]
    assert len(summary) <= most
    assert summary


def test_every_message_gets_a_share_of_the_summary() -> None:
    summary = summarise([user(f"{number} " + "long " * 100) for number in range(40)])
    assert len(summary) <= MAX_SUMMARY_CHARS
    assert all(f"user: {number} long" in summary for number in range(40))
