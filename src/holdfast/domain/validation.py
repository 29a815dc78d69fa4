"""Checks of text, and validation errors explained to the person who wrote the value.

    limits.max: unknown key, known are `max_iterations`, `max_duration_seconds`, …
    providers.local.api: expected one of `openai`, `openai-responses`, `anthropic`

A validation message names the key first, then the reason.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import structs

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge

_Path: TypeAlias = list[str | int]

_ERROR_PATH: Final = re.compile(r" - at `\$(?P<steps>.+)`\Z", re.DOTALL)
_FIELD_ERROR: Final = re.compile(r"Object (contains unknown|missing required) field `(?P<field>.*)`", re.DOTALL)
_JSON_TYPE_NAMES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class _Violation(NamedTuple):
    """Where a value breaks its type, which type that is there, and how."""

    steps: _Path
    kind: Any
    error: msgspec.ValidationError | Invalid


class ValidationMessage(NamedTuple):
    """Which key of a value is wrong, and why."""

    path: Sequence[str | int]
    reason: str


def explain_validation_error(error: msgspec.ValidationError | Invalid, value: Json, kind: Any) -> ValidationMessage:
    """Return which key of `value` cannot be read as part of a `kind`, and why.

    What msgspec says does not name keys of mappings, and what a type raises itself knows no place at all. So the
    smallest part is looked for that is wrong by itself.
    """
    steps, inner, reason = _find_violation(kind, value) or _Violation([], kind, error)
    if isinstance(reason, Invalid):
        field = reason.details.get("field")
        return ValidationMessage([*steps, field] if field else steps, reason.message)
    below, what = raw_validation_message(reason)
    about = _FIELD_ERROR.fullmatch(what)
    if about is None:
        return ValidationMessage([*steps, *below], describe_error(what, inner))
    return ValidationMessage(
        [*steps, about["field"]], _unknown_key_reason(inner) if "unknown" in about[1] else "missing"
    )


def raw_validation_message(error: msgspec.ValidationError) -> ValidationMessage:
    """Return what msgspec itself says, of a value that is too large or too odd to look for more."""
    place = _ERROR_PATH.search(str(error))
    return ValidationMessage(
        [] if place is None else [place["steps"].removeprefix(".")], _ERROR_PATH.sub("", str(error))
    )


def _find_violation(kind: Any, value: Json) -> _Violation | None:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, Invalid) as error:
        for step, inner, item in _children(kind, value):
            found = _find_violation(inner, item)
            if found is not None:
                return found._replace(steps=[step, *found.steps])
        return _Violation([], kind, error)
    return None


def _children(kind: Any, value: Json) -> Iterator[tuple[str | int, Any, Json]]:
    """Yield what a value consists of: the step to it, its type, and the part; the names in a mapping are parts too."""
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
    """Say whether an object may be meant as this type: one that is known by a tag has it."""
    config = kind.__struct_config__
    return config.tag_field is None or value.get(config.tag_field) == config.tag


def type_alternatives(kind: Any) -> Iterator[Any]:
    """Yield a type, and those that it is made of where it is a choice or has notes."""
    yield kind
    origin = get_origin(kind)
    if origin is Annotated:
        yield from type_alternatives(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for one in get_args(kind):
            yield from type_alternatives(one)


def format_message(steps: Sequence[str | int], reason: str) -> str:
    """Return a reason with the key that it is about before it."""
    place = format_path(steps)
    return f"{place}: {reason}" if place else reason


def format_path(steps: Sequence[str | int]) -> str:
    """Return steps as one text."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _unknown_key_reason(kind: Any) -> str:
    known = [field.encode_name for one in type_alternatives(kind) if is_struct(one) for field in structs.fields(one)]
    return f"unknown key, known are {_quoted(known)}"


def describe_error(what: str, kind: Any) -> str:
    """Return what msgspec says about a value, with what a `kind` may be instead."""
    if "enum value" in what or what.startswith("Invalid value"):
        return f"expected one of {_quoted(list(_choices(kind)))}"
    if "matching regex" in what:
        return f"expected {_expected_description(kind) or what.partition('matching ')[2]}"
    words = re.sub(r"\b(str|int|float|bool)\b", lambda word: _JSON_TYPE_NAMES[word[0]], what)
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


def _expected_description(kind: Any) -> str | None:
    """Return how the type itself says what it expects."""
    notes = [note for one in type_alternatives(kind) if get_origin(one) is Annotated for note in get_args(one)[1:]]
    return next((note.extra["expected"] for note in notes if isinstance(note, msgspec.Meta) and note.extra), None)


def is_struct(kind: Any) -> bool:
    """Say whether a type is that of an object with fields."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def check_text(value: str, *, field: str, max_chars: int) -> str:
    """Return `value` if both databases can keep it: no NUL, no half of a surrogate pair, not too long."""
    if len(value) > max_chars:
        raise TooLarge(f"`{field}` may have at most {max_chars} characters", field=field)
    if "\x00" in value:
        raise Invalid(f"`{field}` may not contain a NUL character", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise Invalid(f"`{field}` is not valid Unicode", field=field) from exc
    return value


def check_search_text(value: str, *, field: str, max_chars: int) -> str:
    """Return `value` if something may have it that is looked for; what nothing can have is wrong, and not too large."""
    if len(value) > max_chars:
        raise Invalid(f"`{field}` may have at most {max_chars} characters", field=field)
    return check_text(value, field=field, max_chars=max_chars)


def lowercase_first(message: str) -> str:
    """Return somebody else's message as the end of a sentence of ours; a word like `JSON` stays as it is."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]
