"""The reference lists every event type, and no others."""

from typing import Final

import msgspec

from holdfast.domain.events import EVENT_TYPES
from holdfast.domain.events.custom import CUSTOM_EVENT_TYPES
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "events.md"


def test_the_reference_has_the_holdfast_events_with_their_fields_and_no_others() -> None:
    assert [name for name in CUSTOM_EVENT_TYPES if not name.startswith("holdfast.")] == []
    documented = {name: fields for name, fields, _ in rows(REFERENCE, "name", "fields", "when")}
    assert documented == {f"`{name}`": _fields(event) for name, event in CUSTOM_EVENT_TYPES.items()}


def test_the_reference_has_the_event_types_and_no_others() -> None:
    documented = [type_ for _, types in rows(REFERENCE, "family", "types") for type_ in types.split()]
    assert sorted(documented) == sorted(f"`{type_}`" for type_ in EVENT_TYPES)


def _fields(event: type[msgspec.Struct]) -> str:
    """Return the fields of an event as the reference writes them; optional ones have a question mark."""
    return " ".join(f"`{field.encode_name}{'' if field.required else '?'}`" for field in msgspec.structs.fields(event))
