"""JSON files written by people, decoded to a type: an error names the file, line, key and the remedy."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Annotated, Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from holdfast.domain.agent import Permissions
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.validation import ValidationMessage, explain_validation_error, format_message, lowercase_first
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS, rule_problems
from holdfast.workspace.text_files import raise_invalid_file

T = TypeVar("T")
SchemaUrl: TypeAlias = Annotated[str | None, Meta(description="The schema for editors; Holdfast ignores it.")]


def decode_json(text: str, kind: type[T], *, file: str) -> T:
    """Decode the JSON text of `file` to a `kind`, or raise `Invalid`."""
    try:
        value = _parse(text, file=file)
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.ValidationError, Invalid) as exc:  # the latter is raised by the type itself
            raise_invalid_key(file, text, explain_validation_error(exc, value, kind), cause=exc)
        except msgspec.DecodeError as exc:
            raise_invalid_file(file, "has an unpaired surrogate in a string", cause=exc)
    except RecursionError as exc:
        raise_invalid_file(file, "is nested too deeply", cause=exc)


def raise_invalid_key(file: str, text: str, message: ValidationMessage, *, cause: Exception | None = None) -> NoReturn:
    """Raise `Invalid` with the line of the value in `text`, the content of `file`, that `message` is about."""
    line = f"line {line_of(text, message.path)}: " if message.path else ""
    raise_invalid_file(file, f"{line}{format_message(*message)}", cause=cause)


def _parse(text: str, *, file: str) -> Json:
    """Parse the text, and report syntax errors and duplicate keys, which the typed decoder does not locate."""
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_reject_constant, parse_float=_finite_float
        )
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno}, column {exc.colno}"
        raise_invalid_file(file, f"is not JSON: {place}: {lowercase_first(exc.msg)}", cause=exc)
    except ValueError as exc:
        raise_invalid_file(file, lowercase_first(str(exc)), cause=exc)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"`{key}` is twice in one object: remove one of them")
        result[key] = value
    return result


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number `{text}` is too large")
    return number


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not a JSON number")


_RULE_PATHS: Final[Mapping[str, tuple[str, ...]]] = {name: ("permissions", name) for name in ("deny", "ask", "allow")}
"""Paths of the rule lists in `agent.json` and `settings.json`."""


def check_rules(
    permissions: Permissions,
    text: str,
    *,
    file: str,
    paths: Mapping[str, tuple[str, ...]] = _RULE_PATHS,
    tool_names: Collection[str] = KNOWN_TOOLS,
) -> None:
    """Raise `Invalid` for the first rule that can never match; `paths` are the paths of the rule lists in `text`."""
    for kind, index, reason in rule_problems(permissions, known=tool_names):
        raise_invalid_key(file, text, ValidationMessage([*paths[kind], index], reason))


_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Return the line of the value at `path` in a valid JSON text; if it is missing, the line of its parent."""
    at = _skip_whitespace(text, 0)
    for step in path:
        child = next((child for key, child in _children(text, at) if key == step), None)
        if child is None:
            break
        at = child
    return text.count("\n", 0, at) + 1


def _children(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key or index and the position of each value in the object or list at `at`."""
    is_object = text[at] == "{"
    if not is_object and text[at] != "[":
        return
    at = _skip_whitespace(text, at + 1)
    for index in count():
        if text[at] in "}]":
            return
        key: str | int = index
        if is_object:
            key, end = _DECODER.raw_decode(text, at)
            at = _skip_whitespace(text, _skip_whitespace(text, end) + 1)
        yield key, at
        at = _skip_whitespace(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip_whitespace(text, at + 1)


def _skip_whitespace(text: str, at: int) -> int:
    found = _WHITESPACE.match(text, at)
    assert found is not None  # the pattern matches the empty string
    return found.end()
