"""Schemas of strangers cost little, whatever they say."""

from typing import Any

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.tools.json_schema import (
    MAX_PATTERNS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SUBSCHEMAS,
    BoundedSchema,
)
from holdfast.tools.schema_check import MAX_INLINE_EVALUATIONS


def compiled(schema: Json) -> BoundedSchema:
    return BoundedSchema(msgspec.json.encode(schema))


def problems(schema: Json, value: Json, *, limit: int = 5) -> list[str]:
    return [problem.message for problem in compiled(schema).errors(value, limit=limit)]


def doubling(levels: int, keyword: str, **inner: Json) -> dict[str, Json]:
    """Return a schema whose every level refers twice to the next."""
    definitions: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$defs": {**definitions, f"d{levels}": inner or {"type": "string"}}, "$ref": "#/$defs/d0"}


def nested(levels: int, innermost: Json, wrap: Any) -> Json:
    for _ in range(levels):
        innermost = wrap(innermost)
    return innermost


TREE: dict[str, Json] = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "name": {"type": "string"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_doubles_at_every_level_is_refused(keyword: str) -> None:
    with pytest.raises(Invalid, match="multiplies its subschemas"):
        compiled(doubling(40, keyword))


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40, "dependentSchemas", type="string") | {"$defs": doubling(40, "allOf")["$defs"]},
        {"$defs": {"a": doubling(40, "allOf")}, "if": doubling(40, "allOf"), "then": {"$ref": "#/$defs/a"}},
        {"not": nested(30, {"type": "string"}, lambda inner: {"anyOf": [inner], "unevaluatedProperties": False})},
    ],
)
def test_other_ways_to_multiply_are_refused_too(schema: Json) -> None:
    with pytest.raises(Invalid):
        compiled(schema).errors({"a": 1}, limit=1)


MANY_NAMES: list[Json] = [f"b{number}" for number in range(30)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {"dependentRequired": {f"a{each}": MANY_NAMES for each in range(200)}},
            {f"a{each}": 1 for each in range(200)},
        ),
        ({"dependencies": {f"a{each}": MANY_NAMES for each in range(200)}}, {f"a{each}": 1 for each in range(200)}),
        ({"items": {"const": "c" * 60_000}}, ["x"] * 2_000),
        ({"items": {"enum": ["c" * 60_000]}}, ["x"] * 2_000),
    ],
    ids=["dependentRequired", "dependencies", "const", "enum"],
)
def test_what_a_keyword_compares_counts_as_evaluations(schema: dict[str, Json], value: Json) -> None:
    assert not compiled(schema).is_cheap(value, max_evaluations=100_000)


def test_explanations_that_would_copy_a_large_value_each_are_not_made() -> None:
    schema: dict[str, Json] = {"required": [f"a{number}" for number in range(2_500)]}
    assert len(compiled(schema).errors({}, limit=5)) == 1
    assert len(compiled({"required": ["a", "b", "c"]}).errors({"text": "x" * 20_000}, limit=5)) == 3


def test_recursion_that_doubles_with_the_depth_of_the_value_is_bounded() -> None:
    schema: dict[str, Json] = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
    assert problems(schema, [[1]]) == []
    with pytest.raises(Invalid, match="too large or too deep"):
        compiled(schema).errors(nested(40, 1, lambda inner: [inner]), limit=1)


def test_a_large_value_is_not_checked_against_a_wide_schema() -> None:
    schema: dict[str, Json] = {"items": {"allOf": [{"type": "string"}] * 900}}
    assert problems(schema, ["a"] * 100) == []
    with pytest.raises(Invalid, match="send less at once"):
        compiled(schema).errors(["a"] * 100_000, limit=1)


def test_of_a_costly_check_only_the_first_problem_is_explained() -> None:
    schema: dict[str, Json] = {"items": {"allOf": [{"type": "string"}] * 900}}
    assert problems(schema, [1] * 1_000) == ['it is not of type "string"']


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*b", "(x+x+)+y"])
def test_a_pattern_takes_linear_time(pattern: str) -> None:
    assert problems({"pattern": pattern}, "a" * 50_000 + "c") == [f'it does not match "{pattern}"']
    assert problems({"patternProperties": {pattern: False}}, {"a" * 50_000 + "c": 1}) == []


def test_a_pattern_that_needs_backtracking_is_left_to_the_owner_of_the_schema() -> None:
    look_ahead: dict[str, Json] = {"type": "string", "pattern": "^(?=.*[0-9]).*$"}
    assert problems(look_ahead, "none") == []
    assert problems(look_ahead, 1) == ['it is not of type "string"']
    closed: dict[str, Json] = {
        "patternProperties": {"^(?!_)": {"type": "string"}, "^x": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert problems(closed, {"a": "b"}) == []
    assert problems(closed, {"x": "b"}) == ['it is not of type "integer"']


def test_a_recursive_schema_checks_a_deep_value() -> None:
    value = nested(50, {"name": "leaf"}, lambda inner: {"left": inner, "right": {}})
    assert problems(TREE, value) == []
    assert problems(TREE, nested(50, {"name": 1}, lambda inner: {"left": inner})) == ['it is not of type "string"']


def test_a_large_value_is_checked_against_an_ordinary_schema() -> None:
    row = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
    schema: dict[str, Json] = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    assert problems(schema, {"rows": [{"a": 1, "b": "x"}] * 10_000}) == []
    assert problems(schema, {"rows": [{"a": 1, "b": "x" * 1_000_000}] * 5}) == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#"}, "refers to itself"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "refers to itself"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "refers to itself"),
        ({"$ref": "https://localhost/schema.json"}, "only references within it"),
        ({"$ref": "#/$defs/missing"}, "has nothing at"),
        ({"properties": {"a": {"$id": "urn:b", "type": "string"}}}, r"nested `\$id`"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "longer than"),
        (nested(MAX_SCHEMA_DEPTH, {}, lambda inner: {"not": inner}), "nested deeper"),
        ({"anyOf": [{}] * (MAX_SUBSCHEMAS + 1)}, "subschemas"),
        ({"anyOf": [{"$ref": "#/$defs/a"}] * 501, "$defs": {"a": {"type": "null"}}}, "references"),
    ],
)
def test_a_schema_beyond_the_limits_is_refused_with_the_reason(schema: Json, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        compiled(schema)


def test_anchors_and_escaped_pointers_are_followed() -> None:
    schema: dict[str, Json] = {
        "$defs": {"a/b~c": {"type": "integer"}, "named": {"$anchor": "word", "type": "string"}},
        "properties": {"number": {"$ref": "#/$defs/a~1b~0c"}, "word": {"$ref": "#word"}},
    }
    assert problems(schema, {"number": 1, "word": "x"}) == []
    assert len(problems(schema, {"number": "x", "word": 1})) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{number}": {"pattern": f"a{number}"} for number in range(MAX_PATTERNS + 1)}},
        {"patternProperties": {f"a{number}": {} for number in range(MAX_PATTERNS + 1)}},
    ],
    ids=["pattern", "patternProperties"],
)
def test_a_schema_of_many_patterns_is_refused(schema: Json) -> None:
    with pytest.raises(Invalid, match="more than 200 patterns"):
        compiled(schema)


def test_patterns_share_their_memory() -> None:
    """200 patterns of a megabyte each took 600 ms to compile, and 200 MB."""
    one: dict[str, Json] = {"properties": {"p": {"pattern": r"^\p{L}{20}$"}}}
    assert problems(one, {"p": "a" * 20}) == []
    with pytest.raises(ValueError, match="regex"):
        compiled({"properties": {f"p{number}": {"pattern": rf"^\p{{L}}{{20}}{number}$"} for number in range(200)}})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "[ab]*a[ab]{1000}c"}, "ab" * 1_000),
        ({"properties": {"a": {"pattern": "([ab]{10}){100}c"}}}, {"a": "ab" * 1_000}),
        ({"patternProperties": {"[ab]*a[ab]{1000}c": {}}}, {"ab" * 1_000: 1}),
        ({"propertyNames": {"pattern": "[ab]*a[ab]{1000}c"}}, {"ab" * 1_000: 1}),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"pattern": r"\p{L}*a\p{L}{20}c"}}}, ["ab" * 1_000]),
        ({"format": "regex"}, "(" * 5_000),
        ({"items": {"type": "integer"}}, [1] * 200_000),
        ({}, [0] * 200_000),
    ],
)
def test_a_check_that_takes_long_is_known_before_it_begins(schema: Json, value: Json) -> None:
    assert not compiled(schema).is_cheap(value, max_evaluations=MAX_INLINE_EVALUATIONS)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"sha": {"pattern": "^[0-9a-f]{40}$"}, "text": {"type": "string"}}}, {"text": "x" * 4_000}),
        ({"properties": {"day": {"pattern": r"^\d{4}-\d{2}-\d{2}$"}}}, {"day": "2026-01-01"}),
        ({"properties": {"at": {"format": "date-time"}, "text": {"type": "string"}}}, {"text": "x" * 20_000}),
        ({"items": {"type": "object", "properties": {"a": {"type": "integer"}}}}, [{"a": 1}] * 5_000),
    ],
)
def test_an_ordinary_check_is_cheap(schema: Json, value: Json) -> None:
    assert compiled(schema).is_cheap(value, max_evaluations=MAX_INLINE_EVALUATIONS)
