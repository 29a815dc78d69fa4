"""Reminders that keep a model on track. They are sent at the end of a call and never stored."""

from collections.abc import Sequence
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
from holdfast.domain.plan import Plan, PlanStatus, SubtaskStatus
from holdfast.domain.untrusted import fence_text, safe_name

REMIND_AFTER_SAME_ERRORS: Final = 3
REMIND_AFTER_IDLE_ROUNDS: Final = 6
"""Rounds of calls without progress."""
MAX_GOAL_CHARS: Final = 1_000
"""Characters of the goal in a reminder."""


def build_reminders(
    messages: Sequence[Message],
    *,
    run_id: RunId,
    iterations: int,
    goal: Message | None,
    plan: Plan,
    drift_every: int | None = DEFAULT_ANTI_DRIFT_EVERY,
) -> list[str]:
    """Return the reminders for the next model call, after `iterations` calls of this run.

    After every `drift_every` calls the model is reminded of its goal.
    """
    reminders = []
    if iterations >= REMIND_AFTER_REPEATS:
        repeated = find_repetition(messages, run_id=run_id)
        if repeated.count >= REMIND_AFTER_REPEATS:
            tool, count = safe_name(repeated.tool), repeated.count
            reminders.append(render_text("repetition", tool=tool, count=count, most=STOP_AFTER_REPEATS))
    if iterations >= REMIND_AFTER_SAME_ERRORS:
        errors = count_same_errors(messages, run_id=run_id)
        if errors >= REMIND_AFTER_SAME_ERRORS:
            reminders.append(render_text("stall_errors", count=errors))
        elif (idle := count_idle_rounds(messages, run_id=run_id)) >= REMIND_AFTER_IDLE_ROUNDS:
            reminders.append(render_text("stall_nothing_new", count=idle))
    if iterations and drift_every and iterations % drift_every == 0 and (goal is not None or plan.items):
        text = "what your instructions say"
        if goal is not None:
            text = elide_middle(text_of(goal.content), max_chars=MAX_GOAL_CHARS)
        fenced = fence_text(text, tag="request")
        reminders.append(render_text("drift", iterations=iterations, goal=fenced, plan=_current_item(plan)))
    return reminders


def _current_item(plan: Plan) -> str:
    """Return the plan item in progress, or else the next one."""
    for status, state in ((PlanStatus.IN_PROGRESS, "in progress"), (PlanStatus.PLANNED, "next")):
        for item in plan.items:
            if item.status is status:
                open_subtasks = [each.title for each in item.subtasks if each.status is SubtaskStatus.PENDING]
                lines = [
                    f"{state}: task {item.task_id}, {item.title}",
                    *(f"- open: {title}" for title in open_subtasks),
                ]
                return fence_text("\n".join(lines), tag="plan")
    return "Nothing in the plan is open."
