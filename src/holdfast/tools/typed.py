"""A tool made of a function over typed arguments. Anything else with a `spec` and a `run` is a tool as well."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.tool import ToolSpec
from holdfast.tools.arguments import read
from holdfast.tools.schema import Arguments
from holdfast.tools.tool import Arrival, Call, Outcome

A = TypeVar("A", bound=Arguments)


class TypedTool(Generic[A]):
    """`Tool`: calls `run` with the arguments as the struct that its spec was derived from."""

    def __init__(self, spec: ToolSpec, arguments: type[A], *, run: Callable[[Call, A], Awaitable[Outcome]]) -> None:
        self.spec = spec
        self._arguments = arguments
        self._run = run

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Do it."""
        return await self._run(call, read(arguments, self._arguments))


class WaitingTool(TypedTool[A]):
    """`Tool` and `Resumable`: calls `resume` when what a call waited for has come."""

    def __init__(
        self,
        spec: ToolSpec,
        arguments: type[A],
        *,
        run: Callable[[Call, A], Awaitable[Outcome]],
        resume: Callable[[Call, A, Arrival], Awaitable[Outcome]],
    ) -> None:
        super().__init__(spec, arguments, run=run)
        self._resume = resume

    async def resume(self, call: Call, arguments: dict[str, Json], arrival: Arrival) -> Outcome:
        """Return the outcome, now that something came."""
        return await self._resume(call, read(arguments, self._arguments), arrival)


def unexpected(spec: ToolSpec, arrival: Arrival) -> Conflict:
    """Make the error of a call that got something it never waited for."""
    return Conflict(f"`{spec.name}` does not wait for {type(arrival).__name__}", tool=spec.name)
