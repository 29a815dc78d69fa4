"""What a model is told about its tools, and how long that is."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.ports.model import TokenCounter, ToolDefinition
from holdfast.tools.tool import Tool

PER_TOOL: Final = 8
KEPT: Final = 64
"""How many offers are kept: as long as nothing changes, the tools of an agent are the same for every run."""


class OfferedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a call: as they are offered, as text, and their length."""

    definitions: tuple[ToolDefinition, ...] = ()
    text: str = "[]"
    tokens: int = 0


class Offers:
    """Measures tools; those that it measured lately it does not measure again. One is enough for a process."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._measured = lru_cache(maxsize=KEPT)(self._measure)

    def of(self, tools: Iterable[Tool]) -> OfferedTools:
        """Return what a model is told about `tools`."""
        return self._measured(tuple(tools))

    def _measure(self, tools: tuple[Tool, ...]) -> OfferedTools:
        specs = [tool.spec for tool in tools]
        definitions = [
            ToolDefinition(name=spec.name, description=spec.description, parameters=spec.parameters) for spec in specs
        ]
        return offered(definitions, tokens=self._tokens)


def offered(definitions: Sequence[ToolDefinition], *, tokens: TokenCounter) -> OfferedTools:
    """Measure `definitions`."""
    if not definitions:
        return OfferedTools()
    text = msgspec.json.encode(definitions).decode()
    return OfferedTools(
        definitions=tuple(definitions), text=text, tokens=tokens.count(text) + PER_TOOL * len(definitions)
    )
