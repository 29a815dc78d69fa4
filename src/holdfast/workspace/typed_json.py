"""JSON that people write, read as a type: an error names the file, the key, and what to write instead."""

import json
import math
from typing import Any, NoReturn, TypeVar

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.validation import ValidationMessage, explain_validation_error, format_message, lowercase_first
from holdfast.workspace.places import line_of
from holdfast.workspace.text_files import refuse

T = TypeVar("T")


def decode(text: str, kind: type[T], *, file: str) -> T:
    """Return what a JSON text says as a `kind`, or raise `Invalid`."""
    try:
        return _decode(text, kind, file=file)
    except RecursionError as exc:
        refuse(file, "is nested too deeply", cause=exc)


def _decode(text: str, kind: type[T], *, file: str) -> T:
    value = _parse(text, file=file)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.ValidationError, Invalid) as exc:  # the latter is a rule of the type itself
        complain(file, text, explain_validation_error(exc, value, kind), cause=exc)
    except msgspec.DecodeError as exc:
        refuse(file, "has half of a surrogate pair in a text", cause=exc)


def complain(file: str, text: str, complaint: ValidationMessage, *, cause: Exception | None = None) -> NoReturn:
    """Raise `Invalid` about a key of a file, with the line of it."""
    steps, reason = complaint
    line = f"line {line_of(text, steps)}: " if steps else ""
    refuse(file, f"{line}{format_message(steps, reason)}", cause=cause)


def _parse(text: str, *, file: str) -> Json:
    """Return the value, and see what the typed reader does not: where the text is broken, and double keys."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as exc:
        refuse(file, f"is not JSON: line {exc.lineno}, column {exc.colno}: {lowercase_first(exc.msg)}", cause=exc)
    except ValueError as exc:
        refuse(file, lowercase_first(str(exc)), cause=exc)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"`{key}` is there twice in one object: which one counts?")
        found[key] = value
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"`{text}` is too large a number")
    return number


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not a number in JSON")
