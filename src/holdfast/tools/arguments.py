"""Validation of tool arguments, with error messages that a model can act on."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeVar

import jsonschema_rs
import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolSpec

MAX_PROBLEMS: Final = 5
"""Problems in one error message."""
MAX_PROBLEM_CHARS: Final = 300
"""Characters of one problem, without the sample."""
MAX_SAMPLE_CHARS: Final = 80
"""Characters of the offending value that are quoted."""

_ArgumentsT = TypeVar("_ArgumentsT", bound=msgspec.Struct)


def check_arguments(spec: ToolSpec, arguments: dict[str, Json]) -> None:
    """Raise `Invalid` unless `arguments` match the schema of the tool."""
    validator = check_parameters(spec)
    try:
        msgspec.json.encode(arguments)  # a schema need not check every part of the arguments
        errors = list(islice(validator.iter_errors(arguments), MAX_PROBLEMS + 1))
        problems = [f"- {_problem_message(error)}" for error in errors[:MAX_PROBLEMS]]
    except (ValueError, TypeError, RecursionError) as exc:
        reason = _truncate(str(exc), MAX_PROBLEM_CHARS)
        raise Invalid(f"the arguments of `{spec.name}` are not valid JSON: {reason}") from exc
    if len(errors) > MAX_PROBLEMS:
        problems.append("- and more")
    if problems:
        lines = "\n".join(problems)
        raise Invalid(
            f"the arguments of `{spec.name}` do not match:\n{lines}\ncorrect them and call it again", tool=spec.name
        )


def check_parameters(spec: ToolSpec) -> jsonschema_rs.Validator:
    """Return the validator of a tool's parameters; raise `Invalid` if they are not a JSON Schema."""
    try:
        return _validator(msgspec.json.encode(spec.parameters))
    except ValueError as exc:
        reason = _truncate(str(exc).partition("\n")[0], MAX_PROBLEM_CHARS)
        raise Invalid(f"`{spec.name}` cannot be called: its parameters are not a JSON Schema: {reason}") from exc


def parse_arguments(arguments: dict[str, Json], type: type[_ArgumentsT]) -> _ArgumentsT:
    """Return `arguments` as the struct that a tool takes."""
    try:
        return msgspec.convert(arguments, type)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_integral_floats_to_int(arguments), type)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the arguments do not match: {exc}") from exc


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Validator:
    # Offline: a schema may come from a third party, and must not open files or connections.
    return jsonschema_rs.validator_for(schema.decode(), mask="it", offline=True)


def _problem_message(error: jsonschema_rs.ValidationError) -> str:
    problem = _truncate(f"`{_instance_path(error.instance_path)}`: {_describe_error(error)}", MAX_PROBLEM_CHARS)
    if error.kind.name in ("required", "additionalProperties"):
        return problem
    return f"{problem}; got {_truncate(msgspec.json.encode(error.instance).decode(), MAX_SAMPLE_CHARS)}"


def _describe_error(error: jsonschema_rs.ValidationError) -> str:
    match error.kind.name:
        case "required":
            return f"`{error.kind.value}` is missing"
        case "additionalProperties":
            return f"it does not take {', '.join(f'`{name}`' for name in error.kind.value)}"
        case "type":
            return f"it must be {' or '.join(error.kind.as_dict()['types'])}"
        case "anyOf" | "oneOf":
            return ", or ".join(dict.fromkeys(_branch_errors(error))) or error.message
        case _:
            return error.message


def _branch_errors(error: jsonschema_rs.ValidationError) -> Iterator[str]:
    """Yield why each alternative did not match; nothing if more than one did."""
    for errors in error.kind.as_dict().get("context", ()):
        for first in errors[:1]:
            deeper = len(first.instance_path) > len(error.instance_path)
            path = f"`{_instance_path(first.instance_path)}`: " if deeper else ""
            yield f"{path}{_describe_error(first)}"


def _instance_path(parts: Sequence[str | int]) -> str:
    if not parts:
        return "arguments"
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _integral_floats_to_int(value: Json) -> Json:
    """Return `value` with 2 for 2.0: JSON Schema accepts both as an integer, and some models write the latter."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case dict():
            return {name: _integral_floats_to_int(part) for name, part in value.items()}
        case list():
            return [_integral_floats_to_int(part) for part in value]
        case _:
            return value
