"""A run that reads what others wrote is marked for good: its calls then reach outside only if a person agrees."""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from holdfast.agent.work import Work
from holdfast.domain.events.custom import Tainted
from holdfast.domain.ids import ToolCallId
from holdfast.domain.permission import Decision, Verdict
from holdfast.domain.taint import TAINT, taint_of
from holdfast.domain.tool import ToolSpec, reaches_outside
from holdfast.tools.commands.commands import has_network


def mark(work: Work, names: Iterable[str], *, at: int | None = None, call_id: ToolCallId | None = None) -> None:
    """Mark a run as having read what these wrote, in the commit that lets it read that; say so of each, once."""
    for name in names:
        taint = taint_of(work.values)
        marked = taint.having(name, at=at)
        if marked is not taint:
            work.set_values({TAINT: msgspec.to_builtins(marked)})
            work.log.tell(Tainted(source=name, tool_call_id=UNSET if call_id is None else call_id))


def is_suspect(work: Work) -> bool:
    """Say whether calls of a run may be somebody else's wish."""
    return work.values.get(TAINT) is not None and work.chain.asks_tainted


def tempered(work: Work, spec: ToolSpec, decision: Decision, *, sequence: int | None) -> Decision:
    """Return what is decided about a call of the message of that sequence, once others may have suggested it."""
    if decision.verdict is not Verdict.ALLOW or not is_suspect(work):
        return decision
    names = taint_of(work.values).names(before=sequence)
    if not names or not reaches_outside(spec, network=has_network(work.agent, work.values)):
        return decision
    why = f"the run has read what others wrote (`{'`, `'.join(names)}`), and this call reaches beyond the workspace"
    return Decision(verdict=Verdict.ASK, rule=decision.rule, reason=why)
