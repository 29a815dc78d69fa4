"""What a model is told about its tools, and how long that is."""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.ports.model import ToolDefinition
from holdfast.ports.tokens import Tokens

PER_TOOL: Final = 8


class OfferedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a call: as they are offered, as text, and their length."""

    definitions: tuple[ToolDefinition, ...] = ()
    text: str = "[]"
    tokens: int = 0


def offered(definitions: Sequence[ToolDefinition], *, tokens: Tokens) -> OfferedTools:
    """Measure `definitions`. Do it once for as long as they stay the same."""
    if not definitions:
        return OfferedTools()
    text = msgspec.json.encode(definitions).decode()
    return OfferedTools(
        definitions=tuple(definitions), text=text, tokens=tokens.count(text) + PER_TOOL * len(definitions)
    )
