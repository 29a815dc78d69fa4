"""Edits of a plan by a person: an item is added or changed, by the same rules as an agent's own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.ids import RunId
from holdfast.domain.instant import Instant
from holdfast.domain.plan import (
    Boundary,
    Plan,
    PlanPriority,
    PlanStatus,
    Subtask,
    SubtaskStatus,
    block,
    cancel,
    complete,
    create,
    reset,
    start,
    update,
)

_Position: TypeAlias = Annotated[int, Meta(ge=0, le=2**31)]


class NewSubtask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of an item's checklist in a request."""

    title: str
    status: SubtaskStatus = SubtaskStatus.PENDING


class NewPlanItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item to add to a plan, at `position` or at the end."""

    title: str
    description: str | None = None
    priority: PlanPriority = PlanPriority.MEDIUM
    plan: Json = None
    subtasks: list[NewSubtask] = []
    position: _Position | None = None


class PlanItemPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of an open item; absent fields stay. `subtasks` replaces the whole list.

    A `conclusion` requires the status `completed`, a `reason` requires `blocked` or `cancelled`.
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
    """An item to add; its `task_id`, run and agent are assigned when the edit is stored."""

    item: NewPlanItem
    task_id: int = 0
    run_id: RunId | None = None
    agent_type: str | None = None


class ChangePlanItem(msgspec.Struct, frozen=True, kw_only=True, tag="change"):
    """A change of an item; `edited_at` and `at`, the end of the conversation, are assigned when it is stored."""

    task_id: int
    patch: PlanItemPatch
    at: Boundary | None = None
    edited_at: Instant | None = None


PlanEdit: TypeAlias = AddPlanItem | ChangePlanItem


def apply_edit(current: Plan, edit: PlanEdit) -> Plan:
    """Return the plan with an edit, or raise the error of the plan rule that it breaks."""
    match edit:
        case AddPlanItem(item=item):
            fields = {**msgspec.structs.asdict(item), "subtasks": _to_subtasks(item.subtasks)}
            return create(current, task_id=edit.task_id, run_id=edit.run_id, agent_type=edit.agent_type, **fields)
        case ChangePlanItem(task_id=task_id, patch=patch):
            changes = {name: value for name in _UPDATABLE_FIELDS if (value := getattr(patch, name)) is not UNSET}
            if "subtasks" in changes:
                changes["subtasks"] = _to_subtasks(changes["subtasks"])
            changed = update(current, task_id, **changes) if changes else current
            return changed if patch.status is UNSET else _STATUS_CHANGES[patch.status](changed, edit)


def apply_edits(current: Plan, edits: Iterable[PlanEdit]) -> Plan:
    """Return the plan with the edits that still apply: the agent may have ended an item in the meantime."""
    for edit in edits:
        try:
            current = apply_edit(current, edit)
        except HoldfastError:
            continue
    return current


def check_plan_edit(edit: PlanEdit) -> None:
    """Raise if an edit can never be applied."""
    if not isinstance(edit, ChangePlanItem):
        return
    changes = {name: value for name, value in msgspec.structs.asdict(edit.patch).items() if value is not UNSET}
    if not changes:
        raise Invalid("the patch changes nothing: name at least one field")
    for field, statuses in _STATUSES_BY_FIELD.items():
        if (field in changes) != (changes.get("status") in statuses):
            names = " or ".join(f"`{status}`" for status in statuses)
            raise Invalid(f"`{field}` and the status {names} require each other: give both", field=field)


def _given(text: str | UnsetType) -> str:
    assert text is not UNSET  # `check_plan_edit` requires it with this status
    return text


def _to_subtasks(new: Iterable[NewSubtask]) -> list[Subtask]:
    return [Subtask(title=subtask.title, status=subtask.status) for subtask in new]


_UPDATABLE_FIELDS: Final = ("title", "description", "priority", "plan", "subtasks", "position")
_STATUSES_BY_FIELD: Final = {
    "conclusion": (PlanStatus.COMPLETED,),
    "reason": (PlanStatus.BLOCKED, PlanStatus.CANCELLED),
}
_STATUS_CHANGES: Final[Mapping[PlanStatus, Callable[[Plan, ChangePlanItem], Plan]]] = {
    PlanStatus.PLANNED: lambda plan, edit: reset(plan, edit.task_id),
    PlanStatus.IN_PROGRESS: lambda plan, edit: start(plan, edit.task_id, at=edit.at, now=edit.edited_at),
    PlanStatus.BLOCKED: lambda plan, edit: block(plan, edit.task_id, reason=_given(edit.patch.reason)),
    PlanStatus.COMPLETED: lambda plan, edit: complete(
        plan, edit.task_id, conclusion=_given(edit.patch.conclusion), at=edit.at, now=edit.edited_at
    ),
    PlanStatus.CANCELLED: lambda plan, edit: cancel(
        plan, edit.task_id, reason=_given(edit.patch.reason), now=edit.edited_at
    ),
}
