"""How a tool is changed without knowing it: something is done around each of its calls.

A wrapper sees a call on its way in and its outcome on the way out, also where the call had waited in between. What
can be resumed stays so.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.tools.tool import Arrival, Call, Outcome, Tool

Go: TypeAlias = Callable[[], Awaitable[Outcome]]
"""Goes on to the tool."""
Around: TypeAlias = Callable[[ToolSpec, Call, dict[str, Json], Go], Awaitable[Outcome]]


def wrap(tool: Tool, around: Around) -> Tool:
    """Return `tool` with `around` done around each of its calls."""
    # Not `isinstance`, which takes longer for a protocol than all else here, and this is done for every run.
    resume: _Resume | None = getattr(tool, "resume", None)
    return _Wrapper(tool, around) if resume is None else _ResumableWrapper(tool, resume, around)


async def plainly(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
    """Do nothing around a call."""
    return await go()


def outside(outer: Around, inner: Around) -> Around:
    """Return `inner` with `outer` done around it."""

    async def around(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
        return await outer(spec, call, arguments, lambda: inner(spec, call, arguments, go))

    return around


_Resume: TypeAlias = Callable[[Call, dict[str, Json], Arrival], Awaitable[Outcome]]


class _Wrapper:
    def __init__(self, tool: Tool, around: Around) -> None:
        self.spec = tool.spec
        self._run = tool.run
        self._around = around

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        return await self._around(self.spec, call, arguments, lambda: self._run(call, arguments))


class _ResumableWrapper(_Wrapper):
    def __init__(self, tool: Tool, resume: _Resume, around: Around) -> None:
        super().__init__(tool, around)
        self._resume = resume

    async def resume(self, call: Call, arguments: dict[str, Json], arrival: Arrival) -> Outcome:
        return await self._around(self.spec, call, arguments, lambda: self._resume(call, arguments, arrival))
