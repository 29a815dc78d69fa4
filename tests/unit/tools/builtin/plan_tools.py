"""A run whose model calls plan tools, and keeps what they change."""

from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.plan import Boundary, Plan
from holdfast.testing.calls import HERE, a_call, numbers
from holdfast.tools.builtin.plan_block import PLAN_BLOCK
from holdfast.tools.builtin.plan_cancel import PLAN_CANCEL
from holdfast.tools.builtin.plan_check import PLAN_CHECK
from holdfast.tools.builtin.plan_complete import PLAN_COMPLETE
from holdfast.tools.builtin.plan_create import PLAN_CREATE
from holdfast.tools.builtin.plan_start import PLAN_START
from holdfast.tools.builtin.plan_update import PLAN_UPDATE
from holdfast.tools.tool import Outcome, Tool
from holdfast.tools.wrapped import wrapped

_TOOLS: Final[dict[str, Tool]] = {
    tool.spec.name.removeprefix("plan_"): wrapped(tool)
    for tool in (PLAN_BLOCK, PLAN_CANCEL, PLAN_CHECK, PLAN_COMPLETE, PLAN_CREATE, PLAN_START, PLAN_UPDATE)
}


class Planner:
    """Calls plan tools one after the other."""

    def __init__(self) -> None:
        self.values: dict[str, Json] = {}
        self._numbers = numbers()

    @property
    def plan(self) -> Plan:
        """The plan as it is now."""
        return msgspec.convert(self.values.get("plan", {}), Plan)

    async def call(self, name: str, *, at: Boundary = HERE, **arguments: Json) -> Outcome:
        """Call the tool `plan_<name>`."""
        call = a_call(values=self.values, at=at, next_task_id=self._numbers)
        outcome = await _TOOLS[name].run(call, arguments)
        self.values |= outcome.values
        return outcome
