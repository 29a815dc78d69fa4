"""Tools defined by a typed function: the argument struct gives both the JSON Schema and the description.

The fields of the struct are the parameters; its docstring tells the model what the tool does. The derived schema has
no references, allows no unknown fields, and describes every parameter. Any other object with a `spec` and a `run` is
a tool as well.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.tool import (
    DEFAULT_OUTPUT_LIMIT_CHARS,
    DEFAULT_TOOL_TIMEOUT_SECONDS,
    ToolClass,
    ToolReach,
    ToolSpec,
    check_tool_spec,
)
from holdfast.tools.arguments import parse_arguments
from holdfast.tools.tool import ResumeCause, ToolContext, ToolResult


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool. Every field has a description, and the docstring tells a model what the tool does."""


def tool_spec(
    arguments: type[ToolArguments],
    *,
    name: str,
    kind: ToolClass,
    read_only: bool = False,
    timeout: float = DEFAULT_TOOL_TIMEOUT_SECONDS,
    output_limit: int = DEFAULT_OUTPUT_LIMIT_CHARS,
    reach: ToolReach | None = None,
    untrusted: bool = False,
) -> ToolSpec:
    """Return the spec of the tool that takes `arguments`."""
    return check_tool_spec(
        ToolSpec(
            name=name,
            description=_description(arguments),
            parameters=parameters_schema(arguments),
            kind=kind,
            read_only=read_only,
            timeout=timeout,
            output_limit=output_limit,
            reach=reach,
            untrusted=untrusted,
        )
    )


def parameters_schema(arguments: type[msgspec.Struct]) -> dict[str, Json]:
    """Return the JSON Schema of `arguments`: in one piece, closed, and with every parameter described."""
    try:
        (root,), definitions = msgspec.json.schema_components([arguments])
    except TypeError as exc:
        raise Invalid(f"`{arguments.__name__}` cannot be told as JSON Schema: {exc}", field="parameters") from exc
    schema = _inline_refs(root, definitions, within=())
    schema.pop("description", None)  # it is the description of the tool
    for problem in _schema_problems(schema, at=arguments.__name__):
        raise Invalid(problem, field="parameters")
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(schema))  # a default may be any Python value
    return plain


# Of no use to a model; a discriminator also points to definitions that are no longer there.
_DROPPED_KEYWORDS: Final = frozenset({"title", "discriminator"})


def _inline_refs(
    schema: Mapping[str, Json], definitions: Mapping[str, Json], *, within: tuple[str, ...]
) -> dict[str, Json]:
    """Return `schema` with definitions in place of references: not every provider follows those."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in within:
            raise Invalid(f"`{name}` contains itself: the parameters of a tool must end somewhere", field="parameters")
        target = _inline_refs(definitions[name], definitions, within=(*within, name))
        return target | {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    plain = {
        keyword: _inline_keyword(keyword, value, definitions, within=within)
        for keyword, value in schema.items()
        if keyword not in _DROPPED_KEYWORDS and not (keyword == "required" and not value)
    }
    return _add_required_keywords(plain)


def _inline_keyword(keyword: str, value: Json, definitions: Mapping[str, Json], *, within: tuple[str, ...]) -> Json:
    match keyword, value:
        case "properties", dict():
            return {name: _inline_refs(part, definitions, within=within) for name, part in value.items()}
        case (("items" | "additionalProperties" | "propertyNames"), dict()):
            return _inline_refs(value, definitions, within=within)
        case (("anyOf" | "prefixItems"), list()):
            return [_inline_refs(part, definitions, within=within) for part in value]
        case _:
            return value


def _add_required_keywords(schema: dict[str, Json]) -> dict[str, Json]:
    """Return `schema` with what JSON Schema can do without, and some providers cannot."""
    if schema.get("type") == "array" and "items" not in schema:
        return schema | {"items": {}}
    if "type" not in schema and all(isinstance(option, str) for option in schema.get("enum", [None])):
        return {"type": "string"} | schema
    return schema


def _schema_problems(schema: Mapping[str, Json], *, at: str) -> Iterator[str]:
    """Yield what a model could not work with."""
    properties: Mapping[str, Json] = schema.get("properties", {})
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield f"`{at}` takes unknown fields: make it a struct with `forbid_unknown_fields=True`"
    for name, part in properties.items():
        if not part.get("description") and len(part.get("enum", ())) != 1:  # a tag needs no words
            yield f"`{at}.{name}` has no description: annotate it with `msgspec.Meta(description=…)`"
    parts = [(f"{at}.{name}", part) for name, part in properties.items()]
    parts += [(at, part) for part in _subschemas(schema)]
    for place, part in parts:
        yield from _schema_problems(part, at=place)


def _subschemas(schema: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword]
    for keyword in ("anyOf", "prefixItems"):
        yield from schema.get(keyword, ())


def _description(arguments: type[ToolArguments]) -> str:
    # Its own docstring: an inherited one would describe another tool.
    words = (vars(arguments).get("__doc__") or "").split()
    if not words:
        raise Invalid(f"`{arguments.__name__}` has no docstring: it tells the model what the tool does")
    return " ".join(words)


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


class TypedTool(Generic[ArgumentsT]):
    """`Tool`: calls `run` with the arguments as the struct that its spec was derived from."""

    def __init__(
        self,
        spec: ToolSpec,
        arguments: type[ArgumentsT],
        *,
        run: Callable[[ToolContext, ArgumentsT], Awaitable[ToolResult]],
    ) -> None:
        self.spec = spec
        self._arguments = arguments
        self._run = run

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Do it."""
        return await self._run(call, parse_arguments(arguments, self._arguments))


class TypedResumableTool(TypedTool[ArgumentsT]):
    """`Tool` and `Resumable`: calls `resume` when what a call waited for has come."""

    def __init__(
        self,
        spec: ToolSpec,
        arguments: type[ArgumentsT],
        *,
        run: Callable[[ToolContext, ArgumentsT], Awaitable[ToolResult]],
        resume: Callable[[ToolContext, ArgumentsT, ResumeCause], Awaitable[ToolResult]],
    ) -> None:
        super().__init__(spec, arguments, run=run)
        self._resume = resume

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        """Return the outcome, now that something came."""
        return await self._resume(call, parse_arguments(arguments, self._arguments), cause)


def unexpected_resume(spec: ToolSpec, cause: ResumeCause) -> Conflict:
    """Make the error of a call that got something it never waited for."""
    return Conflict(f"`{spec.name}` does not wait for {type(cause).__name__}", tool=spec.name)
