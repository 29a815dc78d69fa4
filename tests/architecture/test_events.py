"""Whoever reads a stream finds every kind of event in the reference, and nothing that is never sent."""

from typing import Final

import msgspec

from holdfast.domain.events import EVENT_TYPES
from holdfast.domain.events.custom import CUSTOM_EVENT_TYPES
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "events.md"


def test_the_reference_has_the_events_of_our_own_with_their_fields_and_no_others() -> None:
    assert [name for name in CUSTOM_EVENT_TYPES if not name.startswith("holdfast.")] == []
    written = {name: fields for name, fields, _ in rows(REFERENCE, "name", "fields", "when")}
    assert written == {f"`{name}`": _fields(event) for name, event in CUSTOM_EVENT_TYPES.items()}


def test_the_reference_has_the_types_of_events_and_no_others() -> None:
    written = [type_ for _, types in rows(REFERENCE, "family", "types") for type_ in types.split()]
    assert sorted(written) == sorted(f"`{type_}`" for type_ in EVENT_TYPES)


def _fields(event: type[msgspec.Struct]) -> str:
    """Return what an event carries, as the reference writes it: what may be absent has a question mark."""
    return " ".join(f"`{field.encode_name}{'' if field.required else '?'}`" for field in msgspec.structs.fields(event))
