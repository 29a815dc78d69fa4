"""Tools controlled by a test."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.tool import ToolContext, ToolResult

ToolFunction: TypeAlias = Callable[[dict[str, Json]], Awaitable[ToolResult]]

ANYTHING: Final[dict[str, Json]] = {"type": "object"}


class FakeTool:
    """`Tool` that runs a function and records its calls."""

    def __init__(
        self, name: str, do: ToolFunction, *, parameters: dict[str, Json] | None = None, **fields: Any
    ) -> None:
        self.spec = ToolSpec(name=name, description=name, parameters=parameters or ANYTHING, **fields)
        self.calls: list[ToolContext] = []
        self._do = do

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Run the function."""
        self.calls.append(call)
        return await self._do(arguments)


class BlockingTool:
    """`Tool` that blocks until it is opened or cancelled."""

    def __init__(self, name: str = "gate", **fields: Any) -> None:
        self.spec = ToolSpec(name=name, description=name, parameters=ANYTHING, **fields)
        self.started = asyncio.Semaphore(0)
        self.open = asyncio.Event()
        self.call_count = 0
        self.cancellations = 0

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Wait."""
        self.call_count += 1
        self.started.release()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancellations += 1
            raise
        return ToolResult(content=f"open {arguments.get('n', '')}".strip())


def fixed_tool(name: str, content: Json, **fields: Any) -> FakeTool:
    """Return a tool with a fixed result."""

    async def do(arguments: dict[str, Json]) -> ToolResult:
        return ToolResult(content=content)

    return FakeTool(name, do, **fields)


def raising_tool(name: str, error: BaseException, **fields: Any) -> FakeTool:
    """Return a tool that raises."""

    async def do(arguments: dict[str, Json]) -> ToolResult:
        raise error

    return FakeTool(name, do, **fields)


READ_ONLY: Final[dict[str, Any]] = {"kind": ToolClass.IDEMPOTENT, "read_only": True}
