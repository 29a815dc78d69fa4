"""JSON files written by people, decoded to a type: an error names the file, line, key and the remedy."""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from holdfast.domain.agent import Permissions
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.validation import ValidationMessage, explain_validation_error, format_message, lowercase_first
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS, rule_problems
from holdfast.workspace.text_files import raise_invalid_file

T = TypeVar("T")


def decode_json(text: str, kind: type[T], *, file: str) -> T:
    """Return what a JSON text says as a `kind`, or raise `Invalid`."""
    try:
        return _decode_typed(text, kind, file=file)
    except RecursionError as exc:
        raise_invalid_file(file, "is nested too deeply", cause=exc)


def _decode_typed(text: str, kind: type[T], *, file: str) -> T:
    value = _parse(text, file=file)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.ValidationError, Invalid) as exc:  # the latter is a rule of the type itself
        raise_invalid_key(file, text, explain_validation_error(exc, value, kind), cause=exc)
    except msgspec.DecodeError as exc:
        raise_invalid_file(file, "has half of a surrogate pair in a text", cause=exc)


def raise_invalid_key(
    file: str, text: str, complaint: ValidationMessage, *, cause: Exception | None = None
) -> NoReturn:
    """Raise `Invalid` about a key of a file, with the line of it."""
    steps, reason = complaint
    line = f"line {line_of(text, steps)}: " if steps else ""
    raise_invalid_file(file, f"{line}{format_message(steps, reason)}", cause=cause)


def _parse(text: str, *, file: str) -> Json:
    """Return the value, and see what the typed reader does not: where the text is broken, and double keys."""
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_reject_constant, parse_float=_finite_float
        )
    except json.JSONDecodeError as exc:
        raise_invalid_file(
            file, f"is not JSON: line {exc.lineno}, column {exc.colno}: {lowercase_first(exc.msg)}", cause=exc
        )
    except ValueError as exc:
        raise_invalid_file(file, lowercase_first(str(exc)), cause=exc)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"`{key}` is there twice in one object: which one counts?")
        found[key] = value
    return found


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"`{text}` is too large a number")
    return number


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not a number in JSON")


RULE_LISTS: Final[Mapping[str, tuple[str, ...]]] = {name: ("permissions", name) for name in ("deny", "ask", "allow")}
"""Where the rules of `agent.json` and `settings.json` stand."""


def check_rules(
    permissions: Permissions,
    text: str,
    *,
    file: str,
    at: Mapping[str, tuple[str, ...]] = RULE_LISTS,
    known: Collection[str] = KNOWN_TOOLS,
) -> None:
    """Raise `Invalid` about the first rule that can never match; `at` is where each list stands in `text`."""
    for kind, place, reason in rule_problems(permissions, known=known):
        raise_invalid_key(file, text, ValidationMessage([*at[kind], place], reason))


_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


def line_of(text: str, steps: Sequence[str | int]) -> int:
    """Return the line of what `steps` lead to in a valid text; if that is missing, of what should have it."""
    at = _skip_whitespace(text, 0)
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
    at = _skip_whitespace(text, at + 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        value = _skip_whitespace(text, _skip_whitespace(text, end) + 1)
        if name == key:
            return value
        at = _skip_value(text, value)
    return None


def _item(text: str, at: int, index: int) -> int | None:
    at = _skip_whitespace(text, at + 1)
    for _ in range(index):
        if text[at] == "]":
            return None
        at = _skip_value(text, at)
    return None if text[at] == "]" else at


def _skip_value(text: str, at: int) -> int:
    """Return where what follows the value at `at` begins."""
    _, end = _DECODER.raw_decode(text, at)
    at = _skip_whitespace(text, end)
    return _skip_whitespace(text, at + 1) if text[at] == "," else at


def _skip_whitespace(text: str, at: int) -> int:
    found = _WHITESPACE.match(text, at)
    assert found is not None  # it may be empty
    return found.end()
