"""A run that calls plan tools and keeps their changes."""

from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.plan import Boundary, Plan
from holdfast.tools.builtin.plan import (
    PLAN_BLOCK,
    PLAN_CANCEL,
    PLAN_CHECK,
    PLAN_COMPLETE,
    PLAN_CREATE,
    PLAN_START,
    PLAN_UPDATE,
)
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import Tool, ToolResult
from tests.support.calls import HERE, a_call, numbers

_TOOLS: Final[dict[str, Tool]] = {
    tool.spec.name.removeprefix("plan_"): with_standard_middleware(tool)
    for tool in (PLAN_BLOCK, PLAN_CANCEL, PLAN_CHECK, PLAN_COMPLETE, PLAN_CREATE, PLAN_START, PLAN_UPDATE)
}


class Planner:
    """Calls plan tools one after the other."""

    def __init__(self) -> None:
        self.values: dict[str, Json] = {}
        self._numbers = numbers()

    @property
    def plan(self) -> Plan:
        """The current plan."""
        return msgspec.convert(self.values.get("plan", {}), Plan)

    async def call(self, name: str, *, at: Boundary = HERE, **arguments: Json) -> ToolResult:
        """Call the tool `plan_<name>`."""
        call = a_call(values=self.values, at=at, next_task_id=self._numbers)
        outcome = await _TOOLS[name].run(call, arguments)
        self.values |= outcome.values
        return outcome
