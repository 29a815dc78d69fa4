"""The todo list of a run: lines to tick off, in order. It is a value of the run, as its plan is."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.text import check_text

MAX_ITEMS: Final = 200
MAX_TEXT: Final = 1_000
"""Characters of an item."""


class TodoItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do."""

    text: str
    done: bool = False


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """The whole list."""

    items: tuple[TodoItem, ...] = ()


def listed(items: Iterable[TodoItem]) -> Todo:
    """Return the list of these items."""
    kept = tuple(replace(item, text=_text(item.text)) for item in items)
    if len(kept) > MAX_ITEMS:
        raise TooLarge(f"a todo list may have at most {MAX_ITEMS} items: remove those that are done", field="items")
    return Todo(items=kept)


def _text(text: str) -> str:
    kept = check_text(text.strip(), field="items.text", most=MAX_TEXT)
    if not kept:
        raise Invalid("an item of the todo list is empty: say it in a few words", field="items.text")
    return kept
