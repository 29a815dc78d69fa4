"""`events.schema.json`: the JSON Schema of the events in the log of a run, for clients that check or generate types."""

from functools import cache
from typing import Any, Final

import msgspec

from holdfast.domain.events import EVENT_TYPES, Custom
from holdfast.domain.events.custom import CUSTOM_EVENT_TYPES

_DEFINITIONS: Final = "#/$defs/"


@cache
def events_schema_json() -> bytes:
    """Return the schema as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(events_schema()), indent=2) + b"\n"


def events_schema() -> dict[str, Any]:
    """Return the schema: an event is one of AG-UI, or a custom one whose name decides the type of its value."""
    types = [*EVENT_TYPES.values(), *CUSTOM_EVENT_TYPES.values()]
    references, definitions = msgspec.json.schema_components(types, ref_template=_DEFINITIONS + "{name}")
    by_type = dict(zip(types, references, strict=True))
    custom = definitions[Custom.__name__]["properties"]
    for name, value in CUSTOM_EVENT_TYPES.items():
        definitions[f"{value.__name__}Event"] = {
            "title": f"{value.__name__}Event",
            "description": f"The event `{name}`.",
            "type": "object",
            "properties": {**custom, "name": {"enum": [name]}, "value": by_type[value]},
            "required": ["type", "name", "value"],
        }
    own = [{"$ref": f"{_DEFINITIONS}{value.__name__}Event"} for value in CUSTOM_EVENT_TYPES.values()]
    foreign = {
        **definitions[Custom.__name__],
        "properties": {**custom, "name": {"type": "string", "not": {"pattern": r"^holdfast\."}}},
    }
    definitions[Custom.__name__] = foreign
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "description": "An event in the log of a run of Holdfast.",
        "anyOf": [*(by_type[type_] for type_ in EVENT_TYPES.values()), *own],
        "$defs": definitions,
    }
