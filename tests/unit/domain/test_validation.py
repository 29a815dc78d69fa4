"""Validation messages name the invalid key and the expected value."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from holdfast.domain.content import Json, Part
from holdfast.domain.limits import Limits
from holdfast.domain.run import Priority
from holdfast.domain.validation import MAX_SEARCHED_PARTS, explain_validation_error, format_message, format_path


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A type with every kind of field."""

    content: str | list[Part]
    priority: Priority = Priority.NORMAL
    kind: Literal["a", "b"] = "a"
    limits: Limits = Limits()
    most: Annotated[int, msgspec.Meta(ge=1)] = 1
    named: dict[str, list[int]] = {}


PART = {"type": "text", "text": "x"}
WRONG: list[tuple[Json, str]] = [
    ({}, "content: missing"),
    (7, "expected `object`, got `integer`"),
    (
        {"content": "x", "contents": 1},
        "contents: unknown key, known are `content`, `priority`, `kind`, `limits`, `most`, `named`",
    ),
    ({"content": "x", "priority": "soon"}, "priority: expected one of `high`, `normal`, `low`"),
    ({"content": "x", "kind": "c"}, "kind: expected one of `a`, `b`"),
    ({"content": "x", "most": 0}, "most: expected `integer` >= 1"),
    ({"content": "x", "named": {"p": [1, "2"]}}, "named.p[1]: expected `integer`, got `string`"),
    ({"content": [PART, {"type": "text", "text": 7}]}, "content[1].text: expected `string`, got `integer`"),
    ({"content": [{"type": "image", "text": "x"}]}, "content[0].source: missing"),
    ({"content": [{"type": "song"}]}, "content[0].type: expected one of `text`, `image`, `audio`, `video`, `document`"),
    ({"content": [{"text": "x"}]}, "content[0].type: missing"),
]


@pytest.mark.parametrize(("value", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_a_validation_message_names_the_key_and_the_expected_value(value: Any, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Request)
    assert format_message(*explain_validation_error(raised.value, value, Request)) == message


def test_a_path_is_formatted_as_text() -> None:
    assert format_path(["a", 0, "b", "c", 12]) == "a[0].b.c[12]"
    assert format_path([]) == ""


def test_only_a_bounded_number_of_parts_is_searched_for_the_invalid_one() -> None:
    for count, path in ((MAX_SEARCHED_PARTS // 5, "named.last[0]"), (MAX_SEARCHED_PARTS, "named.[...][0]")):
        value: Json = {"content": "x", "named": {f"{number}": [] for number in range(count)} | {"last": ["1"]}}
        with pytest.raises(msgspec.ValidationError) as raised:
            msgspec.convert(value, Request)
        explained = format_message(*explain_validation_error(raised.value, value, Request))
        assert explained == f"{path}: expected `integer`, got `string`"
