"""Text checks, and readable messages for validation errors.

    limits.max: unknown key, known are `max_iterations`, `max_duration_seconds`, …
    providers.local.api: expected one of `openai`, `openai-responses`, `anthropic`

A message names the key first, then the reason.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import structs

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.linear_regex import LinearRegex

MAX_JSON_VALUES: Final = 500_000
"""Values in one JSON text, with the commas and brackets in its strings: they decide what it costs to decode."""
MAX_EXTREME_NUMBERS: Final = 20_000
"""Numbers with an exponent of three digits, such as `1e300`: they cost hundreds of times what others do."""
MAX_NORMALIZED_CHARS: Final = 1_000
"""Characters that are normalized at once: the time grows with the square of the combining marks in a row."""

_EXTREME_NUMBER: Final = LinearRegex(r"[\[,:\s]-?[0-9.]+[eE][-+]?[0-9]{3}", capture=False)
_PATH_START: Final = " - at `$"
_FIELD_ERROR: Final = re.compile(r"Object (contains unknown|missing required) field `(?P<field>.*)`", re.DOTALL)
MAX_SEARCHED_PARTS: Final = 20_000
"""Parts of an invalid value that are searched for the invalid one: a client chooses how many it has."""
_JSON_TYPE_NAMES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class _Violation(NamedTuple):
    """The path of an invalid part, its expected type, and the error."""

    path: list[str | int]
    kind: Any
    error: msgspec.ValidationError | Invalid


class ValidationMessage(NamedTuple):
    """The path of the invalid key in a value, and the reason."""

    path: Sequence[str | int]
    reason: str


def explain_validation_error(error: msgspec.ValidationError | Invalid, value: Json, kind: Any) -> ValidationMessage:
    """Return the key of `value` that is not valid for the type `kind`, and the reason.

    Errors of msgspec do not name keys of mappings, and errors raised by a type itself have no path. So this searches
    for the smallest part that is invalid on its own.
    """
    path, inner, cause = _find_violation(kind, value, iter(range(MAX_SEARCHED_PARTS))) or _Violation([], kind, error)
    if isinstance(cause, Invalid):
        field = cause.details.get("field")
        return ValidationMessage([*path, field] if field else path, cause.message)
    inner_path, text = raw_validation_message(cause)
    field_error = _FIELD_ERROR.fullmatch(text)
    if field_error is None:
        return ValidationMessage([*path, *inner_path], describe_error(text, inner))
    reason = "missing"
    if "unknown" in field_error[1]:
        structs_of_kind = [one for one in type_alternatives(inner) if is_struct(one)]
        known = [field.encode_name for one in structs_of_kind for field in structs.fields(one)]
        reason = f"unknown key, known are {_quoted(known)}"
    return ValidationMessage([*path, field_error["field"]], reason)


def raw_validation_message(error: msgspec.ValidationError) -> ValidationMessage:
    """Return the path and reason of a msgspec error, without searching the value."""
    reason, start, path = str(error).rpartition(_PATH_START)
    if not start or not path.endswith("`"):
        return ValidationMessage([], str(error))
    return ValidationMessage([path[:-1].removeprefix(".")], reason)


def _find_violation(kind: Any, value: Json, budget: Iterator[int]) -> _Violation | None:
    """Return the smallest invalid part, or the smallest that `budget`, one step per part, was enough to find."""
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, Invalid) as error:
        for (step, inner, item), _ in zip(_children(kind, value), budget, strict=False):
            found = _find_violation(inner, item, budget)
            if found is not None:
                return found._replace(path=[step, *found.path])
        return _Violation([], kind, error)
    return None


def _children(kind: Any, value: Json) -> Iterator[tuple[str | int, Any, Json]]:
    """Yield the parts of a value, each with its step and its type; the keys of a mapping are parts too."""
    for one in type_alternatives(kind):
        origin, arguments = get_origin(one), get_args(one)
        if isinstance(value, list) and origin is list:
            yield from ((index, arguments[0], item) for index, item in enumerate(value))
        elif isinstance(value, dict) and origin is dict:
            yield from ((name, arguments[0], name) for name in value)
            yield from ((name, arguments[1], item) for name, item in value.items())
        elif isinstance(value, dict) and is_struct(one) and _has_tag_of(one, value):
            known = {field.encode_name: field.type for field in structs.fields(one)}
            yield from ((name, known[name], item) for name, item in value.items() if name in known)


def _has_tag_of(kind: Any, value: dict[str, Json]) -> bool:
    """Return whether an object may be of this type: a tagged type requires its tag."""
    config = kind.__struct_config__
    return config.tag_field is None or value.get(config.tag_field) == config.tag


def type_alternatives(kind: Any) -> Iterator[Any]:
    """Yield a type and, for a union or an annotated type, the types in it."""
    yield kind
    origin = get_origin(kind)
    if origin is Annotated:
        yield from type_alternatives(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for one in get_args(kind):
            yield from type_alternatives(one)


def format_message(path: Sequence[str | int], reason: str) -> str:
    """Return `path: reason`, or the reason alone for an empty path."""
    formatted = format_path(path)
    return f"{formatted}: {reason}" if formatted else reason


def format_path(path: Sequence[str | int]) -> str:
    """Return a path as text, such as `permissions.deny[2]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def describe_error(text: str, kind: Any) -> str:
    """Return a msgspec error text in JSON terms, with the values that the type `kind` allows."""
    if "enum value" in text or text.startswith("Invalid value"):
        return f"expected one of {_quoted(list(_choices(kind)))}"
    if "matching regex" in text:
        notes = [note for one in type_alternatives(kind) if get_origin(one) is Annotated for note in get_args(one)[1:]]
        described = (note.extra["expected"] for note in notes if isinstance(note, msgspec.Meta) and note.extra)
        return f"expected {next(described, None) or text.partition('matching ')[2]}"
    words = re.sub(r"\b(str|int|float|bool)\b", lambda word: _JSON_TYPE_NAMES[word[0]], text)
    return words[:1].lower() + words[1:]


def _choices(kind: Any) -> Iterator[str]:
    for one in type_alternatives(kind):
        if get_origin(one) is Literal:
            yield from map(str, get_args(one))
        elif isinstance(one, type) and issubclass(one, Enum):
            yield from (str(member.value) for member in one)
        elif is_struct(one) and one.__struct_config__.tag is not None:
            yield str(one.__struct_config__.tag)
        elif one is bool:
            yield from ("true", "false")


def is_struct(kind: Any) -> bool:
    """Return whether a type is a `Struct`."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def check_text(value: str, *, field: str, max_chars: int) -> str:
    """Return `value` if both databases can store it: no NUL, no unpaired surrogate, not too long."""
    if len(value) > max_chars:
        raise TooLarge(f"`{field}` may have at most {max_chars} characters", field=field)
    if "\x00" in value:
        raise Invalid(f"`{field}` may not contain a NUL character", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise Invalid(f"`{field}` is not valid Unicode", field=field) from exc
    return value


def normalize_text(text: str) -> str:
    """Return a text in the form NFKC, normalized in pieces: combining marks in a row would take quadratic time."""
    pieces = range(0, len(text), MAX_NORMALIZED_CHARS)
    return "".join(unicodedata.normalize("NFKC", text[start : start + MAX_NORMALIZED_CHARS]) for start in pieces)


def check_decode_cost(encoded: bytes) -> None:
    """Raise `TooLarge` if JSON costs too much to decode; whether it is JSON is not checked."""
    if len(encoded) > MAX_JSON_VALUES and sum(map(encoded.count, (b"[", b"{", b","))) > MAX_JSON_VALUES:
        raise TooLarge(f"the JSON may have at most {MAX_JSON_VALUES} values: send less at once", limit=MAX_JSON_VALUES)
    if _EXTREME_NUMBER.count(encoded, limit=MAX_EXTREME_NUMBERS + 1) > MAX_EXTREME_NUMBERS:
        raise TooLarge(
            f"the JSON may have at most {MAX_EXTREME_NUMBERS} numbers such as `1e300`: send less at once",
            limit=MAX_EXTREME_NUMBERS,
        )


def check_search_text(value: str, *, field: str, max_chars: int) -> str:
    """Return `value` if it is a valid filter; one that is too long is `Invalid`, because nothing can match it."""
    if len(value) > max_chars:
        raise Invalid(f"`{field}` may have at most {max_chars} characters", field=field)
    return check_text(value, field=field, max_chars=max_chars)


def lowercase_first(message: str) -> str:
    """Return a third-party message with a lower-case start; an acronym such as `JSON` stays as it is."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]
