"""The discovery tools: `tool_search` finds tools by what they do, `tool_activate` makes one visible.

Search scores the words of a query in names, descriptions and parameters.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.content import did_you_mean
from holdfast.tools.exposure import TOOLS_VALUE, ActivatedTools, activated_tools
from holdfast.tools.tool import ToolContext, ToolResult, encode_value
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

MAX_FOUND_TOOLS: Final = 10
_MAX_DESCRIPTION_CHARS: Final = 300


class ToolSearchArguments(ToolArguments, frozen=True, kw_only=True):
    """Search for tools by what they do. Not all tools that you may use are shown to you: activate what you find."""

    query: Annotated[
        str, Meta(min_length=1, max_length=500, description="Words for what you want to do, or a part of a name.")
    ]


TOOL_SEARCH_SPEC: Final = tool_spec(ToolSearchArguments, name="tool_search", kind=ToolClass.IDEMPOTENT, read_only=True)


def tool_search(
    tools: Sequence[ToolSpec], *, visible_names: Callable[[ToolContext], frozenset[str]]
) -> TypedTool[ToolSearchArguments]:
    """Return the tool, which searches `tools`; its results tell whether a tool is visible already."""

    async def search(call: ToolContext, arguments: ToolSearchArguments) -> ToolResult:
        found = rank_tools(arguments.query, tools, limit=MAX_FOUND_TOOLS)
        if not found:
            return ToolResult(content=f"none of {len(tools)} tools matches: try other words")
        shown = visible_names(call)
        entries: list[dict[str, Json]] = [
            {"name": spec.name, "description": spec.description[:_MAX_DESCRIPTION_CHARS], "active": spec.name in shown}
            for spec in found
        ]
        return ToolResult(content={"tools": entries})

    return TypedTool(TOOL_SEARCH_SPEC, ToolSearchArguments, run=search)


class ToolActivateArguments(ToolArguments, frozen=True, kw_only=True):
    """Make a tool visible that `tool_search` found. You can call it from your next turn on."""

    name: Annotated[str, Meta(min_length=1, max_length=64, description="The exact name of the tool.")]


TOOL_ACTIVATE_SPEC: Final = tool_spec(ToolActivateArguments, name="tool_activate", kind=ToolClass.TRANSACTIONAL)


def tool_activate(
    tools: Sequence[ToolSpec], *, visible_names: Callable[[ToolContext], frozenset[str]], limit: int
) -> TypedTool[ToolActivateArguments]:
    """Return the tool, which activates at most `limit` of `tools`."""
    names = frozenset(spec.name for spec in tools)

    async def activate(call: ToolContext, arguments: ToolActivateArguments) -> ToolResult:
        name = arguments.name
        if name not in names:
            raise NotFound(f"there is no tool `{name}`{did_you_mean(name, names)}", name=name)
        content = {"name": name, "active": True}
        if name in visible_names(call):
            return ToolResult(content=content)
        active = activated_tools(call.values, call.run.id).active
        if len(active) >= limit:
            raise Conflict(f"{limit} tools are active, which is the limit: use those")
        activated = ActivatedTools(run_id=call.run.id, active=(*active, name))
        return ToolResult(content=content, values={TOOLS_VALUE: encode_value(activated)})

    return TypedTool(TOOL_ACTIVATE_SPEC, ToolActivateArguments, run=activate)


_WORD: Final = re.compile(r"[^\W_]+")
_NAME_WEIGHT: Final = 4
_DESCRIPTION_WEIGHT: Final = 2
_PARAMETER_WEIGHT: Final = 1


def rank_tools(query: str, specs: Iterable[ToolSpec], *, limit: int) -> list[ToolSpec]:
    """Return up to `limit` tools that match the query, the best first, ties by name."""
    query_words = set(_words(query))
    scores = [(_score(query_words, spec), spec) for spec in specs]
    ranked = sorted(((-score, spec.name, spec) for score, spec in scores if score), key=lambda entry: entry[:2])
    return [spec for _, _, spec in ranked[:limit]]


def _score(query_words: set[str], spec: ToolSpec) -> int:
    parameters = spec.parameters.get("properties", {})
    fields = (
        (_NAME_WEIGHT, spec.name),
        (_DESCRIPTION_WEIGHT, spec.description),
        (_PARAMETER_WEIGHT, " ".join(parameters) if isinstance(parameters, dict) else ""),
    )
    score = 0
    for weight, text in fields:
        words = list(_words(text))
        for word in query_words:
            score += weight * (2 if word in words else int(any(_share_prefix(word, other) for other in words)))
    return score


def _share_prefix(word: str, other: str) -> bool:
    shorter, longer = sorted((word, other), key=len)
    return len(shorter) >= 3 and longer.startswith(shorter)


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.casefold()):
        # Scripts without spaces between words are matched by pairs of characters.
        if any("\u3040" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7a3" for character in word):
            yield from [word[index : index + 2] for index in range(len(word) - 1)] or [word]
        else:
            yield word
