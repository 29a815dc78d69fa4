import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import HoldfastError, Invalid, TooLarge
from holdfast.domain.plan import MAX_TODO_ITEMS, MAX_TODO_TEXT_CHARS, Todo, TodoItem, checked_todo


def test_items_stay_in_order_without_space_around_them() -> None:
    todo = checked_todo([TodoItem(text=" read "), TodoItem(text="write", done=True)])
    assert todo == Todo(items=(TodoItem(text="read"), TodoItem(text="write", done=True)))


def test_a_list_may_be_empty() -> None:
    assert checked_todo([]) == Todo()


@pytest.mark.parametrize("text", ["", " \n", "a\x00b", "\ud800"])
def test_an_empty_or_invalid_item_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        checked_todo([TodoItem(text=text)])


def test_a_text_that_is_too_long_is_rejected() -> None:
    assert checked_todo([TodoItem(text="x" * MAX_TODO_TEXT_CHARS)] * MAX_TODO_ITEMS)
    with pytest.raises(TooLarge):
        checked_todo([TodoItem(text="x" * (MAX_TODO_TEXT_CHARS + 1))])
    with pytest.raises(TooLarge, match="at most 200 items"):
        checked_todo([TodoItem(text="x")] * (MAX_TODO_ITEMS + 1))


@given(st.lists(st.builds(TodoItem, text=st.text(max_size=20), done=st.booleans())))
def test_a_checked_list_is_valid_again(items: list[TodoItem]) -> None:
    try:
        todo = checked_todo(items)
    except HoldfastError:
        return
    assert checked_todo(todo.items) == todo
    assert [item.done for item in todo.items] == [item.done for item in items]
