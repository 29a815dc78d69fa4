"""A run that reads what others wrote is marked for good: its calls then reach outside only if a person agrees."""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from holdfast.agent.work import Work
from holdfast.domain.events.custom import RunTainted
from holdfast.domain.ids import ToolCallId
from holdfast.domain.permission import PermissionAction, PermissionDecision
from holdfast.domain.tool import ToolSpec, reaches_outside
from holdfast.domain.untrusted import TAINT_VALUE, read_taint
from holdfast.tools.commands.command_runner import has_network


def mark(work: Work, names: Iterable[str], *, at: int | None = None, call_id: ToolCallId | None = None) -> None:
    """Mark a run as having read what these wrote, in the commit that lets it read that; say so of each, once."""
    for name in names:
        taint = read_taint(work.values)
        marked = taint.having(name, at=at)
        if marked is not taint:
            work.set_values({TAINT_VALUE: msgspec.to_builtins(marked)})
            work.log.tell(RunTainted(source=name, tool_call_id=UNSET if call_id is None else call_id))


def is_suspect(work: Work) -> bool:
    """Say whether calls of a run may be somebody else's wish."""
    return work.values.get(TAINT_VALUE) is not None and work.chain.asks_tainted


def tempered(work: Work, spec: ToolSpec, decision: PermissionDecision, *, sequence: int | None) -> PermissionDecision:
    """Return what is decided about a call of the message of that sequence, once others may have suggested it."""
    if decision.verdict is not PermissionAction.ALLOW or not is_suspect(work):
        return decision
    names = read_taint(work.values).names(before=sequence)
    if not names or not reaches_outside(spec, network=has_network(work.agent, work.values)):
        return decision
    why = f"the run has read what others wrote (`{'`, `'.join(names)}`), and this call reaches beyond the workspace"
    return PermissionDecision(verdict=PermissionAction.ASK, rule=decision.rule, reason=why)
