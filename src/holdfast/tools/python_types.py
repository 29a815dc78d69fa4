"""Python types as JSON: the schema of a type, and values from and to JSON.

msgspec reads its structs, dataclasses, TypedDicts, enums and the types of the standard library. A type that it does not
know, such as a model of pydantic, is left to pydantic, which is imported only then.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid

T = TypeVar("T")


def json_schema(kind: Any) -> dict[str, Json]:
    """Return the JSON Schema of a type, without references; raise `Invalid` for one that has none."""
    try:
        (root,), definitions = msgspec.json.schema_components([kind])
        schema = inline_refs(root, definitions)
    except TypeError:
        schema = _pydantic_schema(kind)
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(schema))  # a default may be any Python value
    return plain


def from_json(value: Json, kind: type[T]) -> T:
    """Return a JSON value as a value of a type; raise `Invalid` if it does not match."""
    hashable: Any = kind
    try:
        if not _is_msgspec(hashable):
            return cast(T, _adapter(hashable).validate_python(value))
        return msgspec.convert(value, kind)
    except ValueError as exc:  # of both libraries
        raise Invalid(f"the value does not match `{type_name(kind)}`: {exc}") from exc


def to_json(value: object) -> Json:
    """Return a value as JSON; raise `TypeError` for one that has none."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_encode))


def type_name(kind: Any) -> str:
    """Return the name of a type for messages."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


def inline_refs(
    schema: Mapping[str, Json], definitions: Mapping[str, Json], *, ancestors: tuple[str, ...] = ()
) -> dict[str, Json]:
    """Return a schema with its references replaced by their definitions: not every provider follows references."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in ancestors:
            raise Invalid(f"`{name}` contains itself: a schema for a model cannot be recursive", field="schema")
        target = inline_refs(definitions[name], definitions, ancestors=(*ancestors, name))
        return target | {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    plain: dict[str, Json] = {}
    for keyword, value in schema.items():
        match keyword, value:
            case (("title" | "discriminator" | "$defs"), _) | ("required", []):
                continue  # models do not use them, and a discriminator refers to definitions
            case "properties", dict():
                value = {name: inline_refs(part, definitions, ancestors=ancestors) for name, part in value.items()}
            case (("items" | "additionalProperties" | "propertyNames"), dict()):
                value = inline_refs(value, definitions, ancestors=ancestors)
            case (("anyOf" | "oneOf" | "allOf" | "prefixItems"), list()):
                value = [inline_refs(part, definitions, ancestors=ancestors) for part in value]
            case _:
                pass
        plain[keyword] = value
    # Optional in JSON Schema, but some providers require them.
    if plain.get("type") == "array" and "items" not in plain:
        return plain | {"items": {}}
    if "type" not in plain and all(isinstance(option, str) for option in plain.get("enum", [None])):
        return {"type": "string"} | plain
    return plain


@cache
def _is_msgspec(kind: Any) -> bool:
    try:
        msgspec.json.schema_components([kind])
    except TypeError:
        return False
    return True


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _pydantic_schema(kind: Any) -> dict[str, Json]:
    from pydantic import PydanticUserError
    from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

    try:
        schema = _adapter(kind).json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema, PydanticSchemaGenerationError) as exc:
        known = "use types of JSON, dataclasses, TypedDicts, enums, or those of msgspec and pydantic"
        raise Invalid(f"`{type_name(kind)}` has no JSON Schema: {known}", field="schema") from exc
    return inline_refs(schema, schema.get("$defs", {}))


def _encode(value: object) -> object:
    dump = getattr(value, "model_dump", None)  # of a pydantic model
    if dump is None:
        raise TypeError(f"a `{type(value).__name__}` cannot be written as JSON")
    return dump(mode="json")
