"""Why a value is not what a file or a request should say, in words for the person who wrote it.

    limits.max: unknown key, known are `max_iterations`, `max_duration_seconds`, …
    providers.local.api: expected one of `openai`, `openai-responses`, `anthropic`

The key comes first, then the reason.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import structs

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid

_Steps: TypeAlias = list[str | int]

_PLACE: Final = re.compile(r" - at `\$(?P<steps>.+)`\Z", re.DOTALL)
_ABOUT_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(?P<field>.*)`", re.DOTALL)
_JSON_WORDS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class _Breach(NamedTuple):
    """Where a value breaks its type, which type that is there, and how."""

    steps: _Steps
    kind: Any
    error: msgspec.ValidationError | Invalid


class Complaint(NamedTuple):
    """Which key of a value is wrong, and why."""

    steps: Sequence[str | int]
    reason: str


def explain(error: msgspec.ValidationError | Invalid, value: Json, kind: Any) -> Complaint:
    """Return which key of `value` cannot be read as part of a `kind`, and why.

    What msgspec says does not name keys of mappings, and what a type raises itself knows no place at all. So the
    smallest part is looked for that is wrong by itself.
    """
    steps, inner, reason = _breach(kind, value) or _Breach([], kind, error)
    if isinstance(reason, Invalid):
        field = reason.details.get("field")
        return Complaint([*steps, field] if field else steps, reason.message)
    below, what = as_said(reason)
    about = _ABOUT_FIELD.fullmatch(what)
    if about is None:
        return Complaint([*steps, *below], in_words(what, inner))
    return Complaint([*steps, about["field"]], _unknown(inner) if "unknown" in about[1] else "missing")


def as_said(error: msgspec.ValidationError) -> Complaint:
    """Return what msgspec itself says, of a value that is too large or too odd to look for more."""
    place = _PLACE.search(str(error))
    return Complaint([] if place is None else [place["steps"].removeprefix(".")], _PLACE.sub("", str(error)))


def _breach(kind: Any, value: Json) -> _Breach | None:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, Invalid) as error:
        for step, inner, item in _parts(kind, value):
            found = _breach(inner, item)
            if found is not None:
                return found._replace(steps=[step, *found.steps])
        return _Breach([], kind, error)
    return None


def _parts(kind: Any, value: Json) -> Iterator[tuple[str | int, Any, Json]]:
    """Yield what a value consists of: the step to it, its type, and the part; the names in a mapping are parts too."""
    for one in alternatives(kind):
        origin, arguments = get_origin(one), get_args(one)
        if isinstance(value, list) and origin is list:
            yield from ((index, arguments[0], item) for index, item in enumerate(value))
        elif isinstance(value, dict) and origin is dict:
            yield from ((name, arguments[0], name) for name in value)
            yield from ((name, arguments[1], item) for name, item in value.items())
        elif isinstance(value, dict) and is_struct(one) and _is_tagged_so(one, value):
            known = {field.encode_name: field.type for field in structs.fields(one)}
            yield from ((name, known[name], item) for name, item in value.items() if name in known)


def _is_tagged_so(kind: Any, value: dict[str, Json]) -> bool:
    """Say whether an object may be meant as this type: one that is known by a tag has it."""
    config = kind.__struct_config__
    return config.tag_field is None or value.get(config.tag_field) == config.tag


def alternatives(kind: Any) -> Iterator[Any]:
    """Yield a type, and those that it is made of where it is a choice or has notes."""
    yield kind
    origin = get_origin(kind)
    if origin is Annotated:
        yield from alternatives(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for one in get_args(kind):
            yield from alternatives(one)


def placed(steps: Sequence[str | int], reason: str) -> str:
    """Return a reason with the key that it is about before it."""
    place = path(steps)
    return f"{place}: {reason}" if place else reason


def path(steps: Sequence[str | int]) -> str:
    """Return steps as one text."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _unknown(kind: Any) -> str:
    known = [field.encode_name for one in alternatives(kind) if is_struct(one) for field in structs.fields(one)]
    return f"unknown key, known are {_quoted(known)}"


def in_words(what: str, kind: Any) -> str:
    """Return what msgspec says about a value, with what a `kind` may be instead."""
    if "enum value" in what or what.startswith("Invalid value"):
        return f"expected one of {_quoted(list(_choices(kind)))}"
    if "matching regex" in what:
        return f"expected {_expected(kind) or what.partition('matching ')[2]}"
    words = re.sub(r"\b(str|int|float|bool)\b", lambda word: _JSON_WORDS[word[0]], what)
    return words[:1].lower() + words[1:]


def _choices(kind: Any) -> Iterator[str]:
    for one in alternatives(kind):
        if get_origin(one) is Literal:
            yield from map(str, get_args(one))
        elif isinstance(one, type) and issubclass(one, Enum):
            yield from (str(member.value) for member in one)
        elif is_struct(one) and one.__struct_config__.tag is not None:
            yield str(one.__struct_config__.tag)
        elif one is bool:
            yield from ("true", "false")


def _expected(kind: Any) -> str | None:
    """Return how the type itself says what it expects."""
    notes = [note for one in alternatives(kind) if get_origin(one) is Annotated for note in get_args(one)[1:]]
    return next((note.extra["expected"] for note in notes if isinstance(note, msgspec.Meta) and note.extra), None)


def is_struct(kind: Any) -> bool:
    """Say whether a type is that of an object with fields."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
