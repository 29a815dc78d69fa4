"""The plan as a model reads it: whole, in the words of agent tasks."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.domain.agent_task import minimal_agent_task
from holdfast.domain.plan import Plan, PlanItem, PlanStatus, SubtaskStatus
from holdfast.ports.model import TokenCounter

BRIEF: Final = 300
"""Characters of each text of an item, when the whole plan is too long."""


def plan_text(plan: Plan, *, tokens: TokenCounter, most: int) -> str:
    """Return the plan in about `most` tokens: if it is longer, its texts are cut and the oldest completed items go.

    What is open is never left out.
    """
    items = [item for item in plan.items if item.status is not PlanStatus.CANCELLED]
    whole = _told(items, brief=False)
    if len(whole) <= most or tokens.count(whole) <= most:
        return whole
    told = [(item, "\n".join(_lines(item, brief=True))) for item in items]
    lengths = {item.task_id: tokens.count(text) for item, text in told}
    left_out = _oldest(items, spare=sum(lengths.values()) - most, lengths=lengths)
    note = [f"({len(left_out)} tasks that were completed earlier are left out)"] if left_out else []
    return "\n".join([*note, *(text for item, text in told if item.task_id not in left_out)])


def _told(items: Iterable[PlanItem], *, brief: bool) -> str:
    return "\n".join(line for item in items for line in _lines(item, brief=brief))


def _oldest(items: Iterable[PlanItem], *, spare: int, lengths: dict[int, int]) -> set[int]:
    """Return the completed items to leave out, the oldest first, until `spare` tokens are saved."""
    left_out: set[int] = set()
    for item in sorted(items, key=lambda item: item.task_id):
        if spare <= 0:
            break
        if item.status is PlanStatus.COMPLETED:
            left_out.add(item.task_id)
            spare -= lengths[item.task_id]
    return left_out


def _lines(item: PlanItem, *, brief: bool) -> Iterator[str]:
    yield f"#{item.task_id} [{minimal_agent_task(item).status}, {item.priority}] {item.title}"
    for name, said in _texts(item):
        yield f"  {name}: {said[:BRIEF] + '…' if brief and len(said) > BRIEF else said}"
    if not (brief and item.status is PlanStatus.COMPLETED):
        for index, subtask in enumerate(item.subtasks):
            yield f"  {index}. [{'x' if subtask.status is SubtaskStatus.DONE else ' '}] {subtask.title}"


def _texts(item: PlanItem) -> Iterator[tuple[str, str]]:
    if item.description:
        yield "description", item.description
    if item.plan is not None:
        yield "plan", item.plan if isinstance(item.plan, str) else msgspec.json.encode(item.plan).decode()
    if item.reason:
        yield "waits because", item.reason
    if item.conclusion:
        yield "conclusion", item.conclusion
