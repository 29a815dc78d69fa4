"""Validation of tool arguments, with error messages that a model can act on."""

from typing import Final, TypeVar

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolSpec
from holdfast.tools.json_schema import BoundedSchema, compile_schema
from holdfast.tools.schema_check import MAX_PROBLEM_CHARS, find_problems, truncate

MAX_PROBLEMS: Final = 5
"""Problems in one error message."""

_ArgumentsT = TypeVar("_ArgumentsT", bound=msgspec.Struct)


async def check_arguments(spec: ToolSpec, arguments: dict[str, Json]) -> None:
    """Raise `Invalid` unless `arguments` match the schema of the tool."""
    schema = check_parameters(spec)
    try:
        msgspec.json.encode(arguments)  # a schema need not check every part of the arguments
        problems = await find_problems(schema, arguments, name="arguments", limit=MAX_PROBLEMS + 1)
    except (ValueError, TypeError, RecursionError) as exc:
        reason = truncate(str(exc), MAX_PROBLEM_CHARS)
        raise Invalid(f"the arguments of `{spec.name}` are not valid JSON: {reason}") from exc
    if problems:
        listed = [*problems[:MAX_PROBLEMS], "and more"] if len(problems) > MAX_PROBLEMS else problems
        lines = "\n".join(f"- {problem}" for problem in listed)
        raise Invalid(
            f"the arguments of `{spec.name}` do not match:\n{lines}\ncorrect them and call it again", tool=spec.name
        )


def check_parameters(spec: ToolSpec) -> BoundedSchema:
    """Return the schema of a tool's parameters; raise `Invalid` if it cannot be used."""
    try:
        return compile_schema(msgspec.json.encode(spec.parameters))
    except (Invalid, ValueError) as exc:
        reason = truncate(str(exc).partition("\n")[0], MAX_PROBLEM_CHARS)
        raise Invalid(f"`{spec.name}` cannot be called: its parameters are not a JSON Schema: {reason}") from exc


def parse_arguments(arguments: dict[str, Json], type: type[_ArgumentsT]) -> _ArgumentsT:
    """Return `arguments` as the struct that a tool takes."""
    try:
        return msgspec.convert(arguments, type)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(integral_floats_to_int(arguments), type)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the arguments do not match: {exc}") from exc


def integral_floats_to_int(value: Json) -> Json:
    """Return `value` with 2 for 2.0: JSON Schema accepts both as an integer, and some models write the latter."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case dict():
            return {name: integral_floats_to_int(part) for name, part in value.items()}
        case list():
            return [integral_floats_to_int(part) for part in value]
        case _:
            return value
