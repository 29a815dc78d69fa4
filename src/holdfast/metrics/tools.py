"""Tool calls that are counted: how long they ran, and what came of them."""

from time import perf_counter

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.metrics.meters import Meters
from holdfast.tools.tool import CallNext, ToolContext, ToolMiddleware, ToolResult


def counted(meters: Meters) -> ToolMiddleware:
    """Return what counts a call around it. Only tools that exist are called, so that their names are not many."""

    async def count(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        begun, word = perf_counter(), "cut_off"
        try:
            outcome = await go()
            word = word_for(outcome)
            return outcome
        finally:
            meters.tool_seconds.of(spec.name, word).observe(perf_counter() - begun)

    return count


def word_for(outcome: ToolResult) -> str:
    """Return what came of a call, in one word."""
    if outcome.wait is not None:
        return "waits"
    if outcome.unknown:
        return "unknown"
    return "failed" if outcome.failed else "done"
