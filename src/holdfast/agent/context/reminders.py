"""Reminders that keep a model on track, and those that people and agents have set.

They are sent at the end of a call and never stored.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.agent.context.loop_detection import (
    REMIND_AFTER_REPEATS,
    STOP_AFTER_REPEATS,
    count_idle_rounds,
    count_same_errors,
    find_repetition,
)
from holdfast.agent.context.units import elide_middle
from holdfast.agent.prompt import render_text
from holdfast.domain.agent import DEFAULT_ANTI_DRIFT_EVERY
from holdfast.domain.content import plain_text
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message
from holdfast.domain.plan import Plan, PlanStatus, SubtaskStatus
from holdfast.domain.reminder import Reminder, describe_reminder
from holdfast.domain.untrusted import fence_text, safe_name
from holdfast.ports.model import TokenCounter

REMIND_AFTER_SAME_ERRORS: Final = 3
REMIND_AFTER_IDLE_ROUNDS: Final = 6
"""Rounds of calls without progress."""
MAX_DUE_REMINDER_TOKENS: Final = 1_000
"""Tokens of the reminders that people and agents have set, in one call."""
MAX_DUE_REMINDER_CHARS: Final = 2_000
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
    unavailable_servers: Iterable[str] = (),
    folder_notices: Iterable[str] = (),
    output_problems: Sequence[str] = (),
    missing_products: Sequence[str] = (),
) -> list[str]:
    """Return the reminders for the next model call, after `iterations` calls of this run.

    After every `drift_every` calls the model is reminded of its goal. As long as an MCP server is not available, the
    model is told so, and so are the problems of a final answer that does not match its schema, and what the contract of
    a skill still requires.
    """
    # Only names: what a server or its registry writes is untrusted.
    reminders = [render_text("mcp_unavailable", server=server) for server in unavailable_servers]
    reminders += [render_text("folder_notice", message=message) for message in folder_notices]
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
            text = elide_middle(plain_text(goal.content), max_chars=MAX_GOAL_CHARS)
        fenced = fence_text(text, tag="request")
        reminders.append(render_text("drift", iterations=iterations, goal=fenced, plan=_current_item(plan)))
    if output_problems:
        problems = fence_text("\n".join(f"- {each}" for each in output_problems), tag="problems")
        reminders.append(render_text("output_invalid", problems=problems))
    if missing_products:
        missing = fence_text("\n".join(f"- {each}" for each in missing_products), tag="contract")
        reminders.append(render_text("contract_broken", missing=missing))
    return reminders


def due_reminders_note(due: Sequence[Reminder], *, tokens: TokenCounter) -> list[str]:
    """Return the note about triggered reminders: as many as fit, in their order; at least the first is sent."""
    lines: list[str] = []
    remaining = MAX_DUE_REMINDER_TOKENS
    for reminder in due:
        line = describe_reminder(reminder)
        if lines and (remaining := remaining - tokens.count(line)) < 0:
            break
        lines.append(elide_middle(line, max_chars=MAX_DUE_REMINDER_CHARS))
    if not lines:
        return []
    more = len(due) - len(lines)
    left_out = f" {more} more do not fit: `list_reminders` shows them." if more else ""
    fenced = fence_text("\n".join(lines), tag="reminders")
    return [render_text("reminders", reminders=fenced, left_out=left_out)]


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
