"""A tool that takes too long is stopped."""

import asyncio

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapping import Go, wrap


def timed(tool: Tool) -> Tool:
    """Return `tool`, which is stopped after the time that its spec gives it."""
    return wrap(tool, _time)


async def _time(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
    limit = asyncio.timeout(spec.timeout)
    try:
        async with limit:
            return await go()
    except TimeoutError:
        if not limit.expired():
            raise  # the tool's own
        return _late(spec)


def _late(spec: ToolSpec) -> Outcome:
    harmless = spec.read_only or spec.kind is ToolClass.TRANSACTIONAL
    so = "it changed nothing" if harmless else "nobody knows whether it took effect: verify before you call it again"
    return Outcome(
        content=f"`{spec.name}` was stopped after {spec.timeout:g} seconds: {so}",
        failed=True,
        unknown=spec.kind is ToolClass.EFFECTFUL,
    )
