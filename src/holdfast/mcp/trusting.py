"""Tools as they are shown: one that has changed since it was trusted says nothing of itself before a person saw it.

What a tool says of itself is read by the model as if the operator had written it. So whoever controls a server could
tell the model anything, long after somebody looked at the server and found it good.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolChange, ToolSpec
from holdfast.mcp.listing import Offer

CHANGED: Final = (
    "This tool has changed since it was trusted, so what it says of itself is not shown. A call of it is shown to a "
    "person first, who decides whether it may be used."
)
_TOLD: Final = frozenset({"description", "title", "examples", "default", "$comment"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Where the keys are names and no words of the schema."""


def shown(offers: Sequence[Offer], trusted: Mapping[str, str]) -> list[ToolSpec]:
    """Return the specs of tools, where `trusted` are the digests that tools had when they were trusted."""
    return [offer.spec if is_trusted(offer, trusted) else _silent(offer) for offer in offers]


def is_trusted(offer: Offer, trusted: Mapping[str, str]) -> bool:
    """Say whether a tool is what it was when it was trusted."""
    return trusted.get(offer.spec.name) == offer.digest


def _silent(offer: Offer) -> ToolSpec:
    spec = offer.spec
    change = ToolChange(digest=offer.digest, description=spec.description)
    return replace(spec, description=CHANGED, parameters=without_words(spec.parameters), changed=change)


def without_words(schema: Json) -> Json:
    """Return a schema without what it tells whoever reads it."""
    match schema:
        case dict():
            return {key: _part(key, value) for key, value in schema.items() if key not in _TOLD}
        case list():
            return [without_words(part) for part in schema]
        case _:
            return schema


def _part(key: str, value: Json) -> Json:
    if key in _NAMED and isinstance(value, dict):
        return {name: without_words(part) for name, part in value.items()}
    return value if key in ("enum", "const", "required") else without_words(value)
