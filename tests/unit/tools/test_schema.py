from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass
from holdfast.tools.builtin.catalog import BUILTIN_SPECS
from holdfast.tools.typed_tool import ToolArguments, parameters_schema, tool_spec


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Point(ToolArguments, frozen=True, kw_only=True):
    """A point of the picture."""

    x: Annotated[int, Meta(ge=0, description="From the left.")]
    title: Annotated[str, Meta(description="A property that is called as a keyword is.")] = ""


class Paint(ToolArguments, frozen=True, kw_only=True):
    """Paint points.

    All in one
    colour.
    """

    points: Annotated[list[Point], Meta(max_length=3, description="Where.")]
    colour: Annotated[Colour, Meta(description="In which colour.")] = Colour.RED
    thick: Annotated[Literal[1, 2], Meta(description="How thick.")] = 1
    note: Annotated[str | None, Meta(description="Why.")] = None
    origin: Annotated[Point | UnsetType, Meta(description="From where.")] = UNSET
    extra: Annotated[dict[str, Point] | list[Json], Meta(description="More.")] = {}
    size: Annotated[tuple[int, int], Meta(description="How large.")] = (1, 1)


POINT = {
    "description": "A point of the picture.",
    "type": "object",
    "properties": {
        "x": {"description": "From the left.", "type": "integer", "minimum": 0},
        "title": {
            "description": "A property that is called as a keyword is.",
            "type": "string",
            "default": "",
        },
    },
    "required": ["x"],
    "additionalProperties": False,
}


def test_the_parameters_are_derived_from_the_fields() -> None:
    assert parameters_schema(Paint) == {
        "type": "object",
        "properties": {
            "points": {"description": "Where.", "type": "array", "items": POINT, "maxItems": 3},
            "colour": {"description": "In which colour.", "type": "string", "enum": ["blue", "red"], "default": "red"},
            "thick": {"description": "How thick.", "enum": [1, 2], "default": 1},
            "note": {"description": "Why.", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "origin": {**POINT, "description": "From where."},
            "extra": {
                "description": "More.",
                "anyOf": [
                    {"type": "object", "additionalProperties": POINT},
                    {"type": "array", "items": {}},
                ],
                "default": {},
            },
            "size": {
                "description": "How large.",
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "integer"}],
                "minItems": 2,
                "maxItems": 2,
                "items": False,
                "default": [1, 1],
            },
        },
        "required": ["points"],
        "additionalProperties": False,
    }


def test_the_description_of_a_tool_is_the_docstring_of_its_arguments() -> None:
    spec = tool_spec(Paint, name="paint", kind=ToolClass.EFFECTFUL, timeout=5, output_limit=100)
    assert spec.description == "Paint points. All in one colour."
    assert (spec.name, spec.kind, spec.timeout, spec.output_limit) == ("paint", ToolClass.EFFECTFUL, 5, 100)


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    class Nothing(ToolArguments, frozen=True, kw_only=True):
        """Do it."""

    assert parameters_schema(Nothing) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_tagged_union_has_no_references() -> None:
    class Circle(ToolArguments, frozen=True, kw_only=True, tag="circle", tag_field="shape"):
        """Round."""

        radius: Annotated[int, Meta(description="How far.")]

    class Square(ToolArguments, frozen=True, kw_only=True, tag="square", tag_field="shape"):
        """Not round."""

        side: Annotated[int, Meta(description="How long.")]

    class Draw(ToolArguments, frozen=True, kw_only=True):
        """Draw."""

        what: Annotated[Circle | Square, Meta(description="What.")]

    circle, square = parameters_schema(Draw)["properties"]["what"]["anyOf"]
    assert circle["properties"]["shape"] == {"type": "string", "enum": ["circle"]}
    assert square["required"] == ["shape", "side"]


def test_a_tool_without_a_docstring_is_refused() -> None:
    class Silent(ToolArguments, frozen=True, kw_only=True):
        pass

    with pytest.raises(Invalid, match="`Silent` has no docstring"):
        tool_spec(Silent, name="silent", kind=ToolClass.IDEMPOTENT)


def test_a_parameter_without_a_description_is_refused() -> None:
    class Vague(ToolArguments, frozen=True, kw_only=True):
        """Do it."""

        what: str

    with pytest.raises(Invalid, match=r"`Vague\.what` has no description"):
        parameters_schema(Vague)


def test_a_part_of_a_parameter_without_a_description_is_refused() -> None:
    class Part(ToolArguments, frozen=True, kw_only=True):
        """A part."""

        what: str

    class Vague(ToolArguments, frozen=True, kw_only=True):
        """Do it."""

        parts: Annotated[list[Part] | None, Meta(description="All.")] = None

    with pytest.raises(Invalid, match=r"`Vague\.parts\.what` has no description"):
        parameters_schema(Vague)


def test_a_struct_that_takes_anything_is_refused() -> None:
    class Loose(msgspec.Struct):
        """Do it."""

        what: Annotated[str, Meta(description="What.")]

    with pytest.raises(Invalid, match="`Loose` takes unknown fields"):
        parameters_schema(Loose)


def test_a_type_that_json_schema_does_not_know_is_refused() -> None:
    class Odd(ToolArguments, frozen=True, kw_only=True):
        """Do it."""

        what: Annotated[list[int] | tuple[int, int], Meta(description="What.")]

    with pytest.raises(Invalid, match="`Odd` has no JSON Schema"):
        parameters_schema(Odd)


class Endless(ToolArguments, frozen=True, kw_only=True):
    """Do it."""

    more: Annotated["Endless | None", Meta(description="More.")] = None


def test_recursive_parameters_are_refused() -> None:
    with pytest.raises(Invalid, match="`Endless` contains itself"):
        parameters_schema(Endless)


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(Invalid, match="a tool's name"):
        tool_spec(Paint, name="1st", kind=ToolClass.IDEMPOTENT)


@pytest.mark.parametrize("spec", BUILTIN_SPECS, ids=lambda spec: spec.name)
def test_no_built_in_refers_to_definitions(spec: msgspec.Struct) -> None:
    text = msgspec.json.encode(spec).decode()
    assert "$ref" not in text
    assert "$defs" not in text
