"""What a tool takes, written once as a struct: its fields are the parameters, its docstring says what the tool does.

The JSON Schema that a model reads is derived from it: in one piece, closed, and with every parameter described.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import (
    DEFAULT_OUTPUT_LIMIT_CHARS,
    DEFAULT_TOOL_TIMEOUT_SECONDS,
    ToolClass,
    ToolReach,
    ToolSpec,
    check_tool_spec,
)


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool. Every field has a description, and the docstring tells a model what the tool does."""


def spec_of(
    arguments: type[Arguments],
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
            parameters=parameters_of(arguments),
            kind=kind,
            read_only=read_only,
            timeout=timeout,
            output_limit=output_limit,
            reach=reach,
            untrusted=untrusted,
        )
    )


def parameters_of(arguments: type[msgspec.Struct]) -> dict[str, Json]:
    """Return the JSON Schema of `arguments`: in one piece, closed, and with every parameter described."""
    try:
        (root,), definitions = msgspec.json.schema_components([arguments])
    except TypeError as exc:
        raise Invalid(f"`{arguments.__name__}` cannot be told as JSON Schema: {exc}", field="parameters") from exc
    schema = _inlined(root, definitions, within=())
    schema.pop("description", None)  # it is the description of the tool
    for problem in _problems(schema, at=arguments.__name__):
        raise Invalid(problem, field="parameters")
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(schema))  # a default may be any Python value
    return plain


# Of no use to a model; a discriminator also points to definitions that are no longer there.
_DROPPED: Final = frozenset({"title", "discriminator"})


def _inlined(
    schema: Mapping[str, Json], definitions: Mapping[str, Json], *, within: tuple[str, ...]
) -> dict[str, Json]:
    """Return `schema` with definitions in place of references: not every provider follows those."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in within:
            raise Invalid(f"`{name}` contains itself: the parameters of a tool must end somewhere", field="parameters")
        target = _inlined(definitions[name], definitions, within=(*within, name))
        return target | {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    plain = {
        keyword: _inlined_keyword(keyword, value, definitions, within=within)
        for keyword, value in schema.items()
        if keyword not in _DROPPED and not (keyword == "required" and not value)
    }
    return _complete(plain)


def _inlined_keyword(keyword: str, value: Json, definitions: Mapping[str, Json], *, within: tuple[str, ...]) -> Json:
    match keyword, value:
        case "properties", dict():
            return {name: _inlined(part, definitions, within=within) for name, part in value.items()}
        case (("items" | "additionalProperties" | "propertyNames"), dict()):
            return _inlined(value, definitions, within=within)
        case (("anyOf" | "prefixItems"), list()):
            return [_inlined(part, definitions, within=within) for part in value]
        case _:
            return value


def _complete(schema: dict[str, Json]) -> dict[str, Json]:
    """Return `schema` with what JSON Schema can do without, and some providers cannot."""
    if schema.get("type") == "array" and "items" not in schema:
        return schema | {"items": {}}
    if "type" not in schema and all(isinstance(option, str) for option in schema.get("enum", [None])):
        return {"type": "string"} | schema
    return schema


def _problems(schema: Mapping[str, Json], *, at: str) -> Iterator[str]:
    """Yield what a model could not work with."""
    properties: Mapping[str, Json] = schema.get("properties", {})
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield f"`{at}` takes unknown fields: make it a struct with `forbid_unknown_fields=True`"
    for name, part in properties.items():
        if not part.get("description") and len(part.get("enum", ())) != 1:  # a tag needs no words
            yield f"`{at}.{name}` has no description: annotate it with `msgspec.Meta(description=…)`"
    parts = [(f"{at}.{name}", part) for name, part in properties.items()]
    parts += [(at, part) for part in _below(schema)]
    for place, part in parts:
        yield from _problems(part, at=place)


def _below(schema: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword]
    for keyword in ("anyOf", "prefixItems"):
        yield from schema.get(keyword, ())


def _description(arguments: type[Arguments]) -> str:
    # Its own docstring: an inherited one would describe another tool.
    words = (vars(arguments).get("__doc__") or "").split()
    if not words:
        raise Invalid(f"`{arguments.__name__}` has no docstring: it tells the model what the tool does")
    return " ".join(words)
