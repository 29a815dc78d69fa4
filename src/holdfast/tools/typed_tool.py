"""Tools defined by a typed function: the argument struct gives both the JSON Schema and the description.

The fields of the struct are the parameters; its docstring is the description that the model reads. The derived schema
has no references, forbids unknown fields, and describes every parameter. Any other object with a `spec` and a `run` is
a tool as well.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Generic, TypeVar

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
from holdfast.tools.python_types import inline_refs
from holdfast.tools.tool import ResumeCause, ToolContext, ToolResult


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool. Every field has a description; the docstring is the description of the tool."""


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
    # Only its own docstring: an inherited one would describe another tool.
    description = " ".join((vars(arguments).get("__doc__") or "").split())
    if not description:
        raise Invalid(f"`{arguments.__name__}` has no docstring: it tells the model what the tool does")
    return check_tool_spec(
        ToolSpec(
            name=name,
            description=description,
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
    """Return the JSON Schema of `arguments`: without references, closed, and with every parameter described."""
    try:
        (root,), definitions = msgspec.json.schema_components([arguments])
    except TypeError as exc:
        raise Invalid(f"`{arguments.__name__}` has no JSON Schema: {exc}", field="parameters") from exc
    schema = inline_refs(root, definitions)
    schema.pop("description", None)  # it is the description of the tool
    for problem in _schema_problems(schema, path=arguments.__name__):
        raise Invalid(problem, field="parameters")
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(schema))  # a default may be any Python value
    return plain


def _schema_problems(schema: Mapping[str, Json], *, path: str) -> Iterator[str]:
    """Yield the parts of a schema that a model could not use."""
    properties: Mapping[str, Json] = schema.get("properties", {})
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield f"`{path}` takes unknown fields: make it a struct with `forbid_unknown_fields=True`"
    for name, part in properties.items():
        if not part.get("description") and len(part.get("enum", ())) != 1:  # a tag needs no description
            yield f"`{path}.{name}` has no description: annotate it with `msgspec.Meta(description=…)`"
    parts = [(f"{path}.{name}", part) for name, part in properties.items()]
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            parts.append((path, schema[keyword]))
    for keyword in ("anyOf", "prefixItems"):
        parts += [(path, part) for part in schema.get(keyword, ())]
    for part_path, part in parts:
        yield from _schema_problems(part, path=part_path)


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


class TypedTool(Generic[ArgumentsT]):
    """`Tool` that calls `run` with the arguments as a struct."""

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
        """Run a call."""
        return await self._run(call, parse_arguments(arguments, self._arguments))


class TypedResumableTool(TypedTool[ArgumentsT]):
    """`Tool` and `ResumableTool` that also calls `resume` with the arguments as a struct."""

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
        """Continue a call after its wait."""
        return await self._resume(call, parse_arguments(arguments, self._arguments), cause)


def unexpected_resume(spec: ToolSpec, cause: ResumeCause) -> Conflict:
    """Return the error for a call that is resumed by something it does not wait for."""
    return Conflict(f"`{spec.name}` does not wait for {type(cause).__name__}", tool=spec.name)
