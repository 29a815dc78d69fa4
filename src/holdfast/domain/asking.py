"""What the children ask people that a run waits for, as a value of the run: it asks that too."""

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.events.input import Interrupt
from holdfast.domain.ids import RunId

ASKING: Final = "asking"


def asked_below(values: Mapping[str, Json]) -> dict[RunId, list[Interrupt]]:
    """Return what the children ask that a run waits for, by child."""
    kept = values.get(ASKING)
    return msgspec.convert(kept, dict[RunId, list[Interrupt]]) if kept else {}
