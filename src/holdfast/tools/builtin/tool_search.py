"""`tool_search`: what an agent could use, by what it does."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.finding import find
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_FOUND: Final = 10
_SHOWN: Final = 300
"""Characters of a description."""


class ToolSearch(Arguments, frozen=True, kw_only=True):
    """Look for tools by what they do. Not all tools that you may use are shown to you: activate what you find."""

    query: Annotated[
        str, Meta(min_length=1, max_length=500, description="Words for what you want to do, or a part of a name.")
    ]


SPEC: Final = spec_of(ToolSearch, name="tool_search", kind=ToolClass.IDEMPOTENT, read_only=True)


def tool_search(tools: Sequence[ToolSpec], *, shown: Callable[[Call], frozenset[str]]) -> TypedTool[ToolSearch]:
    """Return the tool, which looks among `tools` and says which of them are `shown` already."""

    async def search(call: Call, asked: ToolSearch) -> Outcome:
        found = find(asked.query, tools, limit=MAX_FOUND)
        if not found:
            return Outcome(content=f"none of {len(tools)} tools fits: try other words")
        already = shown(call)
        return Outcome(content={"tools": [_entry(spec, active=spec.name in already) for spec in found]})

    return TypedTool(SPEC, ToolSearch, run=search)


def _entry(spec: ToolSpec, *, active: bool) -> dict[str, Json]:
    return {"name": spec.name, "description": spec.description[:_SHOWN], "active": active}
