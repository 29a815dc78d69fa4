"""Whoever reads a stream finds every kind of event in the reference."""

from typing import Final

from holdfast.domain.events import EVENT_TYPES
from holdfast.domain.events.custom import CUSTOM_TYPES
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "events.md"


def test_every_event_of_our_own_is_in_the_reference() -> None:
    assert CUSTOM_TYPES
    assert [name for name in CUSTOM_TYPES if not name.startswith("holdfast.")] == []
    text = REFERENCE.read_text()
    assert [name for name in CUSTOM_TYPES if f"`{name}`" not in text] == []


def test_every_type_of_event_is_in_the_reference() -> None:
    text = REFERENCE.read_text()
    assert [name for name in EVENT_TYPES if f"`{name}`" not in text] == []
