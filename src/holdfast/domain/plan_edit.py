"""What a person changes of a plan: an item is added, or changed, by the same rules as an agent's own.

No tool call began or ended an item that a person moved, so it has no `start` and no `end` then.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.plan import (
    Plan,
    PlanPriority,
    PlanStatus,
    Subtask,
    SubtaskStatus,
    block,
    cancel,
    complete,
    create,
    put_back,
    start,
    update,
)

_Position: TypeAlias = Annotated[int, Meta(ge=0, le=2**31)]


class NewSubtask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of an item's checklist, as it is to be."""

    title: str
    status: SubtaskStatus = SubtaskStatus.PENDING


class NewPlanItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to do, to be added to a plan at `position`, or at its end."""

    title: str
    description: str | None = None
    priority: PlanPriority = PlanPriority.MEDIUM
    plan: Json = None
    subtasks: list[NewSubtask] = []
    position: _Position | None = None


class PlanItemPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person may change of an open item; what is absent stays. `subtasks` replaces them all.

    A `conclusion` comes with the status `completed`, a `reason` with `blocked` or `cancelled`.
    """

    title: str | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    priority: PlanPriority | UnsetType = UNSET
    plan: Json | UnsetType = UNSET
    subtasks: list[NewSubtask] | UnsetType = UNSET
    position: _Position | UnsetType = UNSET
    status: PlanStatus | UnsetType = UNSET
    conclusion: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class AddPlanItem(msgspec.Struct, frozen=True, kw_only=True, tag="add"):
    """An item to be added; its number is taken when that is kept."""

    item: NewPlanItem
    task_id: int = 0


class ChangePlanItem(msgspec.Struct, frozen=True, kw_only=True, tag="change"):
    """An item to be changed."""

    task_id: int
    patch: PlanItemPatch


PlanEdit: TypeAlias = AddPlanItem | ChangePlanItem


def apply_edit(current: Plan, edit: PlanEdit) -> Plan:
    """Return the plan with an edit; one that breaks a rule of the plan raises what the rule does."""
    match edit:
        case AddPlanItem(task_id=task_id, item=item):
            given = {**msgspec.structs.asdict(item), "subtasks": _to_subtasks(item.subtasks)}
            return create(current, task_id=task_id, **given)
        case ChangePlanItem(task_id=task_id, patch=patch):
            return _apply_patch(current, task_id, patch)


def apply_edits(current: Plan, edits: Iterable[PlanEdit]) -> Plan:
    """Return the plan with those edits that still fit it: an agent may have ended an item meanwhile."""
    for edit in edits:
        try:
            current = apply_edit(current, edit)
        except HoldfastError:
            continue
    return current


def check_plan_edit(edit: PlanEdit) -> None:
    """Raise if an edit can never be made."""
    if not isinstance(edit, ChangePlanItem):
        return
    given = {name: value for name, value in msgspec.structs.asdict(edit.patch).items() if value is not UNSET}
    if not given:
        raise Invalid("the patch changes nothing: name at least one field")
    for field, statuses in _STATUSES_BY_FIELD.items():
        if (field in given) != (given.get("status") in statuses):
            listed = " or ".join(f"`{status}`" for status in statuses)
            raise Invalid(f"`{field}` and the status {listed} come together", field=field)


def _apply_patch(current: Plan, task_id: int, patch: PlanItemPatch) -> Plan:
    changes = {name: value for name in _UPDATABLE_FIELDS if (value := getattr(patch, name)) is not UNSET}
    if "subtasks" in changes:
        changes["subtasks"] = _to_subtasks(changes["subtasks"])
    changed = update(current, task_id, **changes) if changes else current
    return changed if patch.status is UNSET else _STATUS_CHANGES[patch.status](changed, task_id, patch)


def _to_subtasks(given: Iterable[NewSubtask]) -> list[Subtask]:
    return [Subtask(title=subtask.title, status=subtask.status) for subtask in given]


_UPDATABLE_FIELDS: Final = ("title", "description", "priority", "plan", "subtasks", "position")
_STATUSES_BY_FIELD: Final = {
    "conclusion": (PlanStatus.COMPLETED,),
    "reason": (PlanStatus.BLOCKED, PlanStatus.CANCELLED),
}
_STATUS_CHANGES: Final[Mapping[PlanStatus, Callable[[Plan, int, Any], Plan]]] = {
    PlanStatus.PLANNED: lambda plan, task, _: put_back(plan, task),
    PlanStatus.IN_PROGRESS: lambda plan, task, _: start(plan, task, at=None),
    PlanStatus.BLOCKED: lambda plan, task, patch: block(plan, task, reason=patch.reason),
    PlanStatus.COMPLETED: lambda plan, task, patch: complete(plan, task, conclusion=patch.conclusion, at=None),
    PlanStatus.CANCELLED: lambda plan, task, patch: cancel(plan, task, reason=patch.reason),
}
