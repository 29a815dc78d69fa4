"""`tool_activate`: a tool that the model is shown from now on, until the run ends."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.exposure import VALUE, Active, active
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.suggestion import did_you_mean
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool
from holdfast.tools.values import written


class ToolActivate(Arguments, frozen=True, kw_only=True):
    """Have a tool shown to you, that `tool_search` found. From your next turn on you can call it."""

    name: Annotated[str, Meta(min_length=1, max_length=64, description="The exact name of the tool.")]


SPEC: Final = spec_of(ToolActivate, name="tool_activate", kind=ToolClass.TRANSACTIONAL)


def tool_activate(
    tools: Sequence[ToolSpec], *, shown: Callable[[Call], frozenset[str]], most: int
) -> TypedTool[ToolActivate]:
    """Return the tool, which activates at most `most` of `tools`."""
    names = frozenset(spec.name for spec in tools)

    async def activate(call: Call, asked: ToolActivate) -> Outcome:
        if asked.name not in names:
            raise NotFound(f"there is no tool `{asked.name}`{did_you_mean(asked.name, names)}", name=asked.name)
        answer = {"name": asked.name, "active": True}
        if asked.name in shown(call):
            return Outcome(content=answer)
        before = active(call.values, call.run.id).active
        if len(before) >= most:
            raise Conflict(f"{most} tools are active, and no more can be: use those")
        return Outcome(
            content=answer, values={VALUE: written(Active(run_id=call.run.id, active=(*before, asked.name)))}
        )

    return TypedTool(SPEC, ToolActivate, run=activate)
