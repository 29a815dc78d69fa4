"""Where in a JSON text something stands: what is wrong with a file is told with its line."""

import json
import re
from collections.abc import Sequence
from typing import Final

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


def line_of(text: str, steps: Sequence[str | int]) -> int:
    """Return the line of what `steps` lead to in a valid text; if that is missing, of what should have it."""
    at = _after_space(text, 0)
    for step in steps:
        inner = _child(text, at, step)
        if inner is None:
            break
        at = inner
    return text.count("\n", 0, at) + 1


def _child(text: str, at: int, step: str | int) -> int | None:
    """Return where a part of the object or list at `at` begins."""
    match text[at], step:
        case "{", str():
            return _member(text, at, step)
        case "[", int():
            return _item(text, at, step)
        case _:
            return None


def _member(text: str, at: int, key: str) -> int | None:
    at = _after_space(text, at + 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        value = _after_space(text, _after_space(text, end) + 1)
        if name == key:
            return value
        at = _next(text, value)
    return None


def _item(text: str, at: int, index: int) -> int | None:
    at = _after_space(text, at + 1)
    for _ in range(index):
        if text[at] == "]":
            return None
        at = _next(text, at)
    return None if text[at] == "]" else at


def _next(text: str, at: int) -> int:
    """Return where what follows the value at `at` begins."""
    _, end = _DECODER.raw_decode(text, at)
    at = _after_space(text, end)
    return _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it may be empty
    return found.end()
