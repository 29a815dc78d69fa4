"""Whether the arguments of a call fit its tool, and if not, what the model that made them should change."""

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
MAX_PROBLEM: Final = 300
"""Characters that are told of one problem, besides what was given."""
MAX_SAMPLE: Final = 80
"""Characters that are shown of what was given."""

_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def check_arguments(spec: ToolSpec, arguments: dict[str, Json]) -> None:
    """Raise `Invalid`, in words that a model can act on, unless `arguments` fit what the tool takes."""
    validator = _compiled(spec)
    try:
        msgspec.json.encode(arguments)  # a schema need not look at all that there is
        problems = [_problem(error) for error in islice(validator.iter_errors(arguments), MAX_PROBLEMS + 1)]
    except (ValueError, TypeError, RecursionError) as exc:
        raise Invalid(f"the arguments of `{spec.name}` are no JSON: {_cut(str(exc), MAX_PROBLEM)}") from exc
    if problems:
        raise Invalid(_told(spec, problems), tool=spec.name)


def check_parameters(spec: ToolSpec) -> None:
    """Raise `Invalid` if no arguments can be checked, because the parameters of a tool are no JSON Schema."""
    _compiled(spec)


def read(arguments: dict[str, Json], type: type[_Arguments]) -> _Arguments:
    """Return `arguments` as the struct that a tool takes."""
    try:
        return msgspec.convert(arguments, type)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_whole(arguments), type)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the arguments do not fit: {exc}") from exc


def _compiled(spec: ToolSpec) -> jsonschema_rs.Validator:
    try:
        return _validator(msgspec.json.encode(spec.parameters))
    except ValueError as exc:
        reason = _cut(str(exc).partition("\n")[0], MAX_PROBLEM)
        raise Invalid(f"`{spec.name}` cannot be called: its parameters are no JSON Schema: {reason}") from exc


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Validator:
    # Offline: a schema may come from somebody else, and must not make us open files or connections.
    return jsonschema_rs.validator_for(schema.decode(), mask="it", offline=True)


def _told(spec: ToolSpec, problems: Sequence[str]) -> str:
    lines = [f"- {problem}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append("- and more")
    told = "\n".join(lines)
    return f"the arguments of `{spec.name}` do not fit:\n{told}\ncorrect them and call it again"


def _problem(error: jsonschema_rs.ValidationError) -> str:
    told = _cut(f"`{_path(error.instance_path)}`: {_what(error)}", MAX_PROBLEM)
    if error.kind.name in ("required", "additionalProperties"):
        return told
    return f"{told}; got {_sample(error.instance)}"


def _what(error: jsonschema_rs.ValidationError) -> str:
    match error.kind.name:
        case "required":
            return f"`{error.kind.value}` is missing"
        case "additionalProperties":
            return f"it does not take {', '.join(f'`{name}`' for name in error.kind.value)}"
        case "type":
            return f"it must be {' or '.join(error.kind.as_dict()['types'])}"
        case "anyOf" | "oneOf":
            return ", or ".join(dict.fromkeys(_branches(error))) or error.message
        case _:
            return error.message


def _branches(error: jsonschema_rs.ValidationError) -> Iterator[str]:
    """Yield why each of several schemas did not fit; nothing if more than one did."""
    for errors in error.kind.as_dict().get("context", ()):
        for first in errors[:1]:
            deeper = len(first.instance_path) > len(error.instance_path)
            yield f"`{_path(first.instance_path)}`: {_what(first)}" if deeper else _what(first)


def _path(parts: Sequence[str | int]) -> str:
    if not parts:
        return "arguments"
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _sample(value: Json) -> str:
    return _cut(msgspec.json.encode(value).decode(), MAX_SAMPLE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _whole(value: Json) -> Json:
    """Return `value` with 2 for 2.0: the same integer to JSON Schema, and to the models that write it so."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case dict():
            return {name: _whole(part) for name, part in value.items()}
        case list():
            return [_whole(part) for part in value]
        case _:
            return value
