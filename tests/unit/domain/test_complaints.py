"""What is said about a value that does not fit names what is wrong, and what would be right."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from holdfast.domain.content import Json, Part
from holdfast.domain.limits import Limits
from holdfast.domain.run import Priority
from holdfast.domain.validation import explain_validation_error, format_message, format_path


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that is asked for."""

    said: str | list[Part]
    priority: Priority = Priority.NORMAL
    kind: Literal["a", "b"] = "a"
    limits: Limits = Limits()
    most: Annotated[int, msgspec.Meta(ge=1)] = 1
    named: dict[str, list[int]] = {}


PART = {"type": "text", "text": "x"}
WRONG: list[tuple[Json, str]] = [
    ({}, "said: missing"),
    (7, "expected `object`, got `integer`"),
    ({"said": "x", "sed": 1}, "sed: unknown key, known are `said`, `priority`, `kind`, `limits`, `most`, `named`"),
    ({"said": "x", "priority": "soon"}, "priority: expected one of `high`, `normal`, `low`"),
    ({"said": "x", "kind": "c"}, "kind: expected one of `a`, `b`"),
    ({"said": "x", "most": 0}, "most: expected `integer` >= 1"),
    ({"said": "x", "named": {"p": [1, "2"]}}, "named.p[1]: expected `integer`, got `string`"),
    ({"said": [PART, {"type": "text", "text": 7}]}, "said[1].text: expected `string`, got `integer`"),
    ({"said": [{"type": "image", "text": "x"}]}, "said[0].source: missing"),
    ({"said": [{"type": "song"}]}, "said[0].type: expected one of `text`, `image`, `audio`, `video`, `document`"),
    ({"said": [{"text": "x"}]}, "said[0].type: missing"),
]


@pytest.mark.parametrize(("value", "complaint"), WRONG, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_named_with_what_would_be_right(value: Any, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Wish)
    assert format_message(*explain_validation_error(raised.value, value, Wish)) == complaint


def test_a_place_is_one_text() -> None:
    assert format_path(["a", 0, "b", "c", 12]) == "a[0].b.c[12]"
    assert format_path([]) == ""
