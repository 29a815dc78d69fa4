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
"""Characters of a description."""


class ToolSearchArguments(ToolArguments, frozen=True, kw_only=True):
    """Look for tools by what they do. Not all tools that you may use are shown to you: activate what you find."""

    query: Annotated[
        str, Meta(min_length=1, max_length=500, description="Words for what you want to do, or a part of a name.")
    ]


TOOL_SEARCH_SPEC: Final = tool_spec(ToolSearchArguments, name="tool_search", kind=ToolClass.IDEMPOTENT, read_only=True)


def tool_search(
    tools: Sequence[ToolSpec], *, visible_names: Callable[[ToolContext], frozenset[str]]
) -> TypedTool[ToolSearchArguments]:
    """Return the tool, which looks among `tools` and says which of them are `shown` already."""

    async def search(call: ToolContext, asked: ToolSearchArguments) -> ToolResult:
        found = rank_tools(asked.query, tools, limit=MAX_FOUND_TOOLS)
        if not found:
            return ToolResult(content=f"none of {len(tools)} tools fits: try other words")
        already = visible_names(call)
        return ToolResult(content={"tools": [_tool_entry(spec, active=spec.name in already) for spec in found]})

    return TypedTool(TOOL_SEARCH_SPEC, ToolSearchArguments, run=search)


def _tool_entry(spec: ToolSpec, *, active: bool) -> dict[str, Json]:
    return {"name": spec.name, "description": spec.description[:_MAX_DESCRIPTION_CHARS], "active": active}


class ToolActivateArguments(ToolArguments, frozen=True, kw_only=True):
    """Have a tool shown to you, that `tool_search` found. From your next turn on you can call it."""

    name: Annotated[str, Meta(min_length=1, max_length=64, description="The exact name of the tool.")]


TOOL_ACTIVATE_SPEC: Final = tool_spec(ToolActivateArguments, name="tool_activate", kind=ToolClass.TRANSACTIONAL)


def tool_activate(
    tools: Sequence[ToolSpec], *, visible_names: Callable[[ToolContext], frozenset[str]], limit: int
) -> TypedTool[ToolActivateArguments]:
    """Return the tool, which activates at most `most` of `tools`."""
    names = frozenset(spec.name for spec in tools)

    async def activate(call: ToolContext, asked: ToolActivateArguments) -> ToolResult:
        if asked.name not in names:
            raise NotFound(f"there is no tool `{asked.name}`{did_you_mean(asked.name, names)}", name=asked.name)
        answer = {"name": asked.name, "active": True}
        if asked.name in visible_names(call):
            return ToolResult(content=answer)
        before = activated_tools(call.values, call.run.id).active
        if len(before) >= limit:
            raise Conflict(f"{limit} tools are active, and no more can be: use those")
        return ToolResult(
            content=answer,
            values={TOOLS_VALUE: encode_value(ActivatedTools(run_id=call.run.id, active=(*before, asked.name)))},
        )

    return TypedTool(TOOL_ACTIVATE_SPEC, ToolActivateArguments, run=activate)


_WORD: Final = re.compile(r"[^\W_]+")
_NAME_WEIGHT: Final = 4
_DESCRIPTION_WEIGHT: Final = 2
_PARAMETER_WEIGHT: Final = 1


def rank_tools(query: str, specs: Iterable[ToolSpec], *, limit: int) -> list[ToolSpec]:
    """Return up to `limit` tools that fit the query, the best first; equals by name."""
    wanted = set(_words(query))
    scored = [(_score(wanted, spec), spec) for spec in specs]
    fitting = sorted(((-score, spec.name, spec) for score, spec in scored if score), key=lambda found: found[:2])
    return [spec for _, _, spec in fitting[:limit]]


def _score(wanted: set[str], spec: ToolSpec) -> int:
    parameters = spec.parameters.get("properties", {})
    fields = (
        (_NAME_WEIGHT, spec.name),
        (_DESCRIPTION_WEIGHT, spec.description),
        (_PARAMETER_WEIGHT, " ".join(parameters) if isinstance(parameters, dict) else ""),
    )
    return sum(weight * _matches(wanted, list(_words(text))) for weight, text in fields)


def _matches(wanted: Iterable[str], words: Sequence[str]) -> int:
    """Return how well the words fit: twice for a word itself, once for one that begins with it or the other way."""
    return sum(2 if word in words else int(any(_share_prefix(word, other) for other in words)) for word in wanted)


def _share_prefix(word: str, other: str) -> bool:
    shorter, longer = sorted((word, other), key=len)
    return len(shorter) >= 3 and longer.startswith(shorter)


def _words(text: str) -> Iterator[str]:
    for found in _WORD.findall(text.casefold()):
        yield from _bigrams(found) if _is_unspaced_script(found) else (found,)


def _is_unspaced_script(word: str) -> bool:
    """Whether it is of a script that puts no spaces between words: then pairs of characters stand for them."""
    return any("\u3040" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7a3" for character in word)


def _bigrams(text: str) -> list[str]:
    return [text[at : at + 2] for at in range(len(text) - 1)] or [text]
