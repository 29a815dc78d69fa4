"""Reminders that keep a model on course. They are sent at the end of a call and never stored."""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.agent.context.circles import (
    REPEATED,
    STOPPED,
    repetition,
    rounds_without_progress,
    same_errors,
)
from holdfast.agent.context.shorten import middle_left_out
from holdfast.agent.context.units import words
from holdfast.agent.prompt.texts import filled
from holdfast.domain.agent import DEFAULT_ANTI_DRIFT_EVERY
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message
from holdfast.domain.plan import Plan, PlanItem, PlanStatus, SubtaskStatus
from holdfast.domain.untrusted import fence_text, safe_name

SAME_ERRORS: Final = 3
NOTHING_NEW: Final = 6
"""Rounds of calls of which nothing new came."""
LONGEST_GOAL: Final = 1_000
"""Characters of what was asked for, in a reminder."""


def reminders(
    messages: Sequence[Message],
    *,
    run_id: RunId,
    iterations: int,
    goal: Message | None,
    plan: Plan,
    drift_every: int | None = DEFAULT_ANTI_DRIFT_EVERY,
) -> list[str]:
    """Return what the model is to be reminded of in its next call, after `iterations` calls of this run.

    Of what was asked for it is reminded after every `drift_every` calls.
    """
    if not iterations:
        return []  # there is nothing yet that it could have strayed from
    return [
        *_repeated(messages, run_id, iterations),
        *_stalled(messages, run_id, iterations),
        *(_drift(iterations, goal, plan) if drift_every and iterations % drift_every == 0 else ()),
    ]


def _repeated(messages: Sequence[Message], run_id: RunId, iterations: int) -> Iterator[str]:
    if iterations < REPEATED:
        return  # nothing can have happened so often yet
    found = repetition(messages, run_id=run_id)
    if found.count >= REPEATED:
        yield filled("repetition", tool=safe_name(found.tool), count=found.count, most=STOPPED)


def _stalled(messages: Sequence[Message], run_id: RunId, iterations: int) -> Iterator[str]:
    if iterations < SAME_ERRORS:
        return
    errors = same_errors(messages, run_id=run_id)
    if errors >= SAME_ERRORS:
        yield filled("stall_errors", count=errors)
        return
    idle = rounds_without_progress(messages, run_id=run_id)
    if idle >= NOTHING_NEW:
        yield filled("stall_nothing_new", count=idle)


def _drift(iterations: int, goal: Message | None, plan: Plan) -> Iterator[str]:
    if goal is None and not plan.items:
        return
    asked = (
        middle_left_out(words(goal.content), most=LONGEST_GOAL) if goal is not None else "what your instructions say"
    )
    yield filled("drift", iterations=iterations, goal=fence_text(asked, tag="request"), plan=_next(plan))


def _next(plan: Plan) -> str:
    """Return where the plan stands: the item in progress, or else the next one."""
    for status in (PlanStatus.IN_PROGRESS, PlanStatus.PLANNED):
        for item in plan.items:
            if item.status is status:
                return fence_text(_item(item), tag="plan")
    return "Nothing in the plan is open."


def _item(item: PlanItem) -> str:
    state = "in progress" if item.status is PlanStatus.IN_PROGRESS else "next"
    left = [subtask.title for subtask in item.subtasks if subtask.status is SubtaskStatus.PENDING]
    return "\n".join([f"{state}: task {item.task_id}, {item.title}", *(f"- open: {title}" for title in left)])
