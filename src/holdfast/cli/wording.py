"""The words and marks with which a run is shown."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import UNSET

from holdfast.domain.events import RunFinished
from holdfast.domain.events.messages import CancelledOutcome, InterruptOutcome
from holdfast.domain.plan import PlanItem, PlanStatus, SubtaskStatus

LONGEST: Final = 200
"""Characters of what a call says and gets; `--json` has all of it."""


class Look(NamedTuple):
    """How a kind of line looks: its label, and what stands after it."""

    style: str
    words: str


LABELS: Final[Mapping[str, Look]] = {
    "run": Look("bold", ""),
    "user": Look("bold", "bold"),
    "agent": Look("bold green", ""),
    "thinks": Look("dim", "dim italic"),
    "call": Look("cyan", ""),
    "result": Look("cyan", ""),
    "step": Look("dim", "dim"),
    "plan": Look("blue", ""),
    "made": Look("blue", ""),
    "child": Look("magenta", ""),
    "asks": Look("bold yellow", "bold"),
    "status": Look("yellow", ""),
    "log": Look("dim", ""),
    "void": Look("yellow", ""),
    "error": Look("bold red", ""),
}

_MARKS: Final = {
    PlanStatus.PLANNED: " ",
    PlanStatus.IN_PROGRESS: "▸",
    PlanStatus.BLOCKED: "!",
    PlanStatus.COMPLETED: "✓",
    PlanStatus.CANCELLED: "×",
}


def plan_line(item: PlanItem) -> str:
    """Return what a line of a plan says."""
    done = sum(subtask.status is SubtaskStatus.DONE for subtask in item.subtasks)
    subtasks = f" ({done}/{len(item.subtasks)})" if item.subtasks else ""
    return f"[{_MARKS[item.status]}] {item.task_id}. {item.title}{subtasks}"


def one_line(text: str) -> str:
    """Return a text on one line, and of a long one its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def questions(event: RunFinished) -> list[str]:
    """Return what a run asks people at the end of a segment."""
    if not isinstance(event.outcome, InterruptOutcome):
        return []
    return [each.reason if each.message is UNSET else each.message for each in event.outcome.interrupts]


def ending(event: RunFinished) -> str:
    """Return how a run ended that did not fail."""
    return "cancelled" if isinstance(event.outcome, CancelledOutcome) else "finished"


def tokens(event: RunFinished) -> int:
    """Return how many tokens a segment claims to have used."""
    used = [] if event.usage is UNSET else event.usage
    return sum(0 if each.total_tokens is UNSET else each.total_tokens for each in used)
