"""Reminders that keep a model on course. They are sent at the end of a call and never stored."""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.agent.context.loop_detection import (
    REMIND_AFTER_REPEATS,
    STOP_AFTER_REPEATS,
    count_idle_rounds,
    count_same_errors,
    find_repetition,
)
from holdfast.agent.context.units import elide_middle, text_of
from holdfast.agent.prompt import render_text
from holdfast.domain.agent import DEFAULT_ANTI_DRIFT_EVERY
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message
from holdfast.domain.plan import Plan, PlanItem, PlanStatus, SubtaskStatus
from holdfast.domain.untrusted import fence_text, safe_name

REMIND_AFTER_SAME_ERRORS: Final = 3
REMIND_AFTER_IDLE_ROUNDS: Final = 6
"""Rounds of calls of which nothing new came."""
MAX_GOAL_CHARS: Final = 1_000
"""Characters of what was asked for, in a reminder."""


def build_reminders(
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
        *_repetition_reminder(messages, run_id, iterations),
        *_stall_reminder(messages, run_id, iterations),
        *(_drift_reminder(iterations, goal, plan) if drift_every and iterations % drift_every == 0 else ()),
    ]


def _repetition_reminder(messages: Sequence[Message], run_id: RunId, iterations: int) -> Iterator[str]:
    if iterations < REMIND_AFTER_REPEATS:
        return  # nothing can have happened so often yet
    found = find_repetition(messages, run_id=run_id)
    if found.count >= REMIND_AFTER_REPEATS:
        yield render_text("repetition", tool=safe_name(found.tool), count=found.count, most=STOP_AFTER_REPEATS)


def _stall_reminder(messages: Sequence[Message], run_id: RunId, iterations: int) -> Iterator[str]:
    if iterations < REMIND_AFTER_SAME_ERRORS:
        return
    errors = count_same_errors(messages, run_id=run_id)
    if errors >= REMIND_AFTER_SAME_ERRORS:
        yield render_text("stall_errors", count=errors)
        return
    idle = count_idle_rounds(messages, run_id=run_id)
    if idle >= REMIND_AFTER_IDLE_ROUNDS:
        yield render_text("stall_nothing_new", count=idle)


def _drift_reminder(iterations: int, goal: Message | None, plan: Plan) -> Iterator[str]:
    if goal is None and not plan.items:
        return
    asked = (
        elide_middle(text_of(goal.content), max_chars=MAX_GOAL_CHARS)
        if goal is not None
        else "what your instructions say"
    )
    yield render_text("drift", iterations=iterations, goal=fence_text(asked, tag="request"), plan=_plan_position(plan))


def _plan_position(plan: Plan) -> str:
    """Return where the plan stands: the item in progress, or else the next one."""
    for status in (PlanStatus.IN_PROGRESS, PlanStatus.PLANNED):
        for item in plan.items:
            if item.status is status:
                return fence_text(_item_text(item), tag="plan")
    return "Nothing in the plan is open."


def _item_text(item: PlanItem) -> str:
    state = "in progress" if item.status is PlanStatus.IN_PROGRESS else "next"
    left = [subtask.title for subtask in item.subtasks if subtask.status is SubtaskStatus.PENDING]
    return "\n".join([f"{state}: task {item.task_id}, {item.title}", *(f"- open: {title}" for title in left)])
