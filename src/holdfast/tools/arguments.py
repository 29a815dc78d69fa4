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
MAX_PROBLEM_CHARS: Final = 300
"""Characters that are told of one problem, besides what was given."""
MAX_SAMPLE_CHARS: Final = 80
"""Characters that are shown of what was given."""

_ArgumentsT = TypeVar("_ArgumentsT", bound=msgspec.Struct)


def check_arguments(spec: ToolSpec, arguments: dict[str, Json]) -> None:
    """Raise `Invalid`, in words that a model can act on, unless `arguments` fit what the tool takes."""
    validator = _compile_schema(spec)
    try:
        msgspec.json.encode(arguments)  # a schema need not look at all that there is
        problems = [_problem_message(error) for error in islice(validator.iter_errors(arguments), MAX_PROBLEMS + 1)]
    except (ValueError, TypeError, RecursionError) as exc:
        raise Invalid(f"the arguments of `{spec.name}` are no JSON: {_truncate(str(exc), MAX_PROBLEM_CHARS)}") from exc
    if problems:
        raise Invalid(_validation_message(spec, problems), tool=spec.name)


def check_parameters(spec: ToolSpec) -> None:
    """Raise `Invalid` if no arguments can be checked, because the parameters of a tool are no JSON Schema."""
    _compile_schema(spec)


def parse_arguments(arguments: dict[str, Json], type: type[_ArgumentsT]) -> _ArgumentsT:
    """Return `arguments` as the struct that a tool takes."""
    try:
        return msgspec.convert(arguments, type)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_integral_floats_to_int(arguments), type)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the arguments do not fit: {exc}") from exc


def _compile_schema(spec: ToolSpec) -> jsonschema_rs.Validator:
    try:
        return _validator(msgspec.json.encode(spec.parameters))
    except ValueError as exc:
        reason = _truncate(str(exc).partition("\n")[0], MAX_PROBLEM_CHARS)
        raise Invalid(f"`{spec.name}` cannot be called: its parameters are no JSON Schema: {reason}") from exc


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Validator:
    # Offline: a schema may come from somebody else, and must not make us open files or connections.
    return jsonschema_rs.validator_for(schema.decode(), mask="it", offline=True)


def _validation_message(spec: ToolSpec, problems: Sequence[str]) -> str:
    lines = [f"- {problem}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append("- and more")
    told = "\n".join(lines)
    return f"the arguments of `{spec.name}` do not fit:\n{told}\ncorrect them and call it again"


def _problem_message(error: jsonschema_rs.ValidationError) -> str:
    told = _truncate(f"`{_instance_path(error.instance_path)}`: {_describe_error(error)}", MAX_PROBLEM_CHARS)
    if error.kind.name in ("required", "additionalProperties"):
        return told
    return f"{told}; got {_sample(error.instance)}"


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
    """Yield why each of several schemas did not fit; nothing if more than one did."""
    for errors in error.kind.as_dict().get("context", ()):
        for first in errors[:1]:
            deeper = len(first.instance_path) > len(error.instance_path)
            yield (
                f"`{_instance_path(first.instance_path)}`: {_describe_error(first)}"
                if deeper
                else _describe_error(first)
            )


def _instance_path(parts: Sequence[str | int]) -> str:
    if not parts:
        return "arguments"
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _sample(value: Json) -> str:
    return _truncate(msgspec.json.encode(value).decode(), MAX_SAMPLE_CHARS)


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _integral_floats_to_int(value: Json) -> Json:
    """Return `value` with 2 for 2.0: the same integer to JSON Schema, and to the models that write it so."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case dict():
            return {name: _integral_floats_to_int(part) for name, part in value.items()}
        case list():
            return [_integral_floats_to_int(part) for part in value]
        case _:
            return value
