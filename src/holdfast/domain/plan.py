"""The plan of a run (ordered tasks, each with its place in the conversation) and its todo list.

    planned · in_progress · blocked ──► completed · cancelled

At most one item is in progress: starting another resets it to planned. An ended item never changes, except for its
position when others move. Plan and todo list are values of the run, so they branch with the thread.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, NotFound, TooLarge
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run
from holdfast.domain.validation import check_text

MAX_OPEN_ITEMS: Final = 100
MAX_SUBTASKS: Final = 50
MAX_TITLE_CHARS: Final = 300
MAX_TEXT_CHARS: Final = 10_000
"""Limit of a description, a conclusion or a reason."""
MAX_PLAN_CHARS: Final = 50_000
"""Limit of an item's plan, as text or as JSON."""


class PlanStatus(StrEnum):
    """Status of a plan item."""

    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether an item in this status can no longer change."""
        return self in (PlanStatus.COMPLETED, PlanStatus.CANCELLED)


class PlanPriority(StrEnum):
    """Priority of a plan item."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    URGENT = "urgent"


class SubtaskStatus(StrEnum):
    """Status of a subtask; it is active while its item is."""

    PENDING = "pending"
    DONE = "done"


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """Where an item started or ended: a message, and the index of a tool call in its content.

    An edit by a person has no tool call: its boundary is the last content block that the agent had written.
    """

    message_sequence_num: int
    content_sequence_num: int


class Subtask(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of an item's checklist."""

    title: str
    status: SubtaskStatus = SubtaskStatus.PENDING


class PlanItem(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a plan. `start` is its latest start; `reason` says why it is blocked or cancelled.

    `started_at` and `ended_at` are the times of its latest start, and of its completion or cancellation. `run_id` is
    the run that planned it, or whose plan a person added it to, and `agent_type` the agent of that run. Items of older
    versions have neither times nor a run.
    """

    task_id: int
    position: int
    title: str
    description: str | None = None
    status: PlanStatus = PlanStatus.PLANNED
    priority: PlanPriority = PlanPriority.MEDIUM
    plan: Json = None
    subtasks: tuple[Subtask, ...] = ()
    start: Boundary | None = None
    end: Boundary | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    conclusion: str | None = None
    reason: str | None = None
    run_id: RunId | None = None
    agent_type: str | None = None


class ThreadTask(PlanItem, frozen=True, kw_only=True):
    """A plan item with its thread, as clients read it."""

    thread_id: ThreadId
    run_id: RunId
    agent_type: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan items ordered by position; positions count from 0 without gaps."""

    items: tuple[PlanItem, ...] = ()


def boundary(sequence: int, *, text: str, call_index: int) -> Boundary:
    """Return the boundary of a tool call in a message; a non-empty `text` is a content block before the calls."""
    return Boundary(message_sequence_num=sequence, content_sequence_num=call_index + bool(text))


def boundary_at_end(messages: Sequence[Message]) -> Boundary:
    """Return the boundary at the last content block of the newest assistant message, or else of the newest message."""
    entered = [message for message in messages if message.sequence is not None]
    newest = next((each for each in reversed(entered) if each.role is Role.ASSISTANT), entered[-1] if entered else None)
    if newest is None or newest.sequence is None:
        return Boundary(message_sequence_num=0, content_sequence_num=0)
    parts = bool(newest.content) if isinstance(newest.content, str) else len(newest.content)
    blocks = parts + len(newest.tool_calls)
    return Boundary(message_sequence_num=newest.sequence, content_sequence_num=max(blocks - 1, 0))


def thread_tasks(current: Plan, run: Run) -> list[ThreadTask]:
    """Return the items of the plan of `run`; those of older versions, which name no run, belong to this one."""
    return [
        ThreadTask(
            **{name: getattr(item, name) for name in _ITEM_FIELDS},
            thread_id=run.thread_id,
            run_id=item.run_id or run.id,
            agent_type=item.agent_type or run.agent_type,
        )
        for item in current.items
    ]


_ITEM_FIELDS: Final = tuple(name for name in PlanItem.__struct_fields__ if name not in ("run_id", "agent_type"))


def find(current: Plan, task_id: int) -> PlanItem:
    """Return the item with this id."""
    for item in current.items:
        if item.task_id == task_id:
            return item
    raise NotFound(f"the plan has no task {task_id}: use an id of the plan", task_id=task_id)


def create(
    current: Plan,
    *,
    task_id: int,
    title: str,
    description: str | None = None,
    priority: PlanPriority = PlanPriority.MEDIUM,
    plan: Json = None,
    subtasks: Iterable[Subtask] = (),
    position: int | None = None,
    run_id: RunId | None = None,
    agent_type: str | None = None,
) -> Plan:
    """Add an item at `position`, or at the end; `task_id` is the next value of the thread's counter."""
    newest = max((item.task_id for item in current.items), default=0)
    if task_id <= newest:
        raise Invalid(f"`task_id` must be greater than {newest}", field="task_id")
    if sum(not item.status.terminal for item in current.items) >= MAX_OPEN_ITEMS:
        raise Conflict(f"the plan has {MAX_OPEN_ITEMS} open tasks: complete or cancel one first")
    item = PlanItem(
        task_id=task_id,
        position=len(current.items) if position is None else position,
        title=_checked_text(title, field="title", max_chars=MAX_TITLE_CHARS),
        description=_checked_optional_text(description, field="description"),
        priority=priority,
        plan=_checked_plan(plan),
        subtasks=_checked_subtasks(subtasks),
        run_id=run_id,
        agent_type=agent_type,
    )
    return _insert_item(current.items, item)


def update(
    current: Plan,
    task_id: int,
    *,
    title: str | UnsetType = UNSET,
    description: str | None | UnsetType = UNSET,
    priority: PlanPriority | UnsetType = UNSET,
    plan: Json | UnsetType = UNSET,
    subtasks: Iterable[Subtask] | UnsetType = UNSET,
    position: int | UnsetType = UNSET,
) -> Plan:
    """Change the given fields of an open item; `subtasks` replaces the whole list, `position` moves the item."""
    item = _open_item(current, task_id)
    changes: dict[str, Any] = {}
    if title is not UNSET:
        changes["title"] = _checked_text(title, field="title", max_chars=MAX_TITLE_CHARS)
    if description is not UNSET:
        changes["description"] = _checked_optional_text(description, field="description")
    if priority is not UNSET:
        changes["priority"] = priority
    if plan is not UNSET:
        changes["plan"] = _checked_plan(plan)
    if subtasks is not UNSET:
        changes["subtasks"] = _checked_subtasks(subtasks)
    if position is not UNSET:
        changes["position"] = position
    others = tuple(other for other in current.items if other is not item)
    return _insert_item(others, replace(item, **changes))


def start(current: Plan, task_id: int, *, at: Boundary | None, now: Instant | None = None) -> Plan:
    """Start or restart an open item and reset the one in progress."""
    item = _open_item(current, task_id)
    if item.status is PlanStatus.IN_PROGRESS:
        return current
    for other in current.items:
        if other.status is PlanStatus.IN_PROGRESS:
            current = _replace_item(current, other, status=PlanStatus.PLANNED)
    return _replace_item(current, item, status=PlanStatus.IN_PROGRESS, start=at, started_at=now, reason=None)


def reset(current: Plan, task_id: int) -> Plan:
    """Set an open item back to planned."""
    return _replace_item(current, _open_item(current, task_id), status=PlanStatus.PLANNED, reason=None)


def check(current: Plan, task_id: int, *, subtask: int | str) -> Plan:
    """Mark a subtask of an open item as done, by its index from 0 or by its exact title."""
    item = _open_item(current, task_id)
    index = subtask if isinstance(subtask, int) else _subtask_index(item, subtask)
    if not 0 <= index < len(item.subtasks):
        raise NotFound(
            f"task {task_id} has {len(item.subtasks)} subtasks, counted from 0: it has no subtask {index}",
            task_id=task_id,
        )
    done = replace(item.subtasks[index], status=SubtaskStatus.DONE)
    return _replace_item(current, item, subtasks=(*item.subtasks[:index], done, *item.subtasks[index + 1 :]))


def complete(current: Plan, task_id: int, *, conclusion: str, at: Boundary | None, now: Instant | None = None) -> Plan:
    """Complete an item whose subtasks are all done, and keep its conclusion."""
    item = _open_item(current, task_id)
    open_subtasks = [subtask.title for subtask in item.subtasks if subtask.status is SubtaskStatus.PENDING]
    if open_subtasks:
        raise Conflict(
            f"task {task_id} has open subtasks: mark the finished ones as done, or update the list, then retry",
            task_id=task_id,
            open_subtasks=open_subtasks,
        )
    conclusion = _checked_text(conclusion, field="conclusion", max_chars=MAX_TEXT_CHARS)
    ended: dict[str, Any] = {"conclusion": conclusion, "end": at, "ended_at": now}
    return _replace_item(current, item, status=PlanStatus.COMPLETED, reason=None, **ended)


def block(current: Plan, task_id: int, *, reason: str) -> Plan:
    """Block an open item for a `reason`; starting it again unblocks it."""
    item = _open_item(current, task_id)
    reason = _checked_text(reason, field="reason", max_chars=MAX_TEXT_CHARS)
    return _replace_item(current, item, status=PlanStatus.BLOCKED, reason=reason)


def cancel(current: Plan, task_id: int, *, reason: str, now: Instant | None = None) -> Plan:
    """Cancel an open item for a `reason`."""
    item = _open_item(current, task_id)
    reason = _checked_text(reason, field="reason", max_chars=MAX_TEXT_CHARS)
    return _replace_item(current, item, status=PlanStatus.CANCELLED, reason=reason, ended_at=now)


def _open_item(current: Plan, task_id: int) -> PlanItem:
    item = find(current, task_id)
    if item.status.terminal:
        raise Conflict(
            f"task {task_id} is {item.status} and can no longer change: create a new task",
            task_id=task_id,
            status=str(item.status),
        )
    return item


def _replace_item(current: Plan, item: PlanItem, **changes: Any) -> Plan:
    changed = replace(item, **changes)
    return Plan(items=tuple(changed if old.task_id == item.task_id else old for old in current.items))


def _insert_item(others: tuple[PlanItem, ...], item: PlanItem) -> Plan:
    at = item.position
    if not 0 <= at <= len(others):
        raise Invalid(f"`position` must be 0 to {len(others)}", field="position")
    ordered = (*others[:at], item, *others[at:])
    return Plan(items=tuple(replace(each, position=index) for index, each in enumerate(ordered)))


def _subtask_index(item: PlanItem, title: str) -> int:
    found = [index for index, subtask in enumerate(item.subtasks) if subtask.title == title.strip()]
    if not found:
        raise NotFound(
            f"task {item.task_id} has no subtask with that title: use the exact title, or the index from 0",
            task_id=item.task_id,
            subtasks=[subtask.title for subtask in item.subtasks],
        )
    if len(found) > 1:
        raise Invalid(
            f"task {item.task_id} has {len(found)} subtasks with that title: use the index",
            task_id=item.task_id,
            indexes=found,
        )
    return found[0]


def _checked_text(value: str, *, field: str, max_chars: int) -> str:
    text = check_text(value.strip(), field=field, max_chars=max_chars)
    if not text:
        raise Invalid(f"`{field}` is empty: describe it in a few words", field=field)
    return text


def _checked_optional_text(value: str | None, *, field: str) -> str | None:
    return check_text(value.strip(), field=field, max_chars=MAX_TEXT_CHARS) or None if value is not None else None


def _checked_plan(value: Json) -> Json:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    check_text(text, field="plan", max_chars=MAX_PLAN_CHARS)
    return value


def _checked_subtasks(values: Iterable[Subtask]) -> tuple[Subtask, ...]:
    subtasks = tuple(
        replace(subtask, title=_checked_text(subtask.title, field="subtasks.title", max_chars=MAX_TITLE_CHARS))
        for subtask in values
    )
    if len(subtasks) > MAX_SUBTASKS:
        raise TooLarge(f"a task may have at most {MAX_SUBTASKS} subtasks: split it into two tasks", field="subtasks")
    return subtasks


MAX_TODO_ITEMS: Final = 200
MAX_TODO_TEXT_CHARS: Final = 1_000


class TodoItem(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a todo list."""

    text: str
    done: bool = False


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """A todo list."""

    items: tuple[TodoItem, ...] = ()


def checked_todo(items: Iterable[TodoItem]) -> Todo:
    """Return the todo list of `items`, or raise if it breaks a limit."""
    checked = tuple(
        replace(item, text=_checked_text(item.text, field="items.text", max_chars=MAX_TODO_TEXT_CHARS))
        for item in items
    )
    if len(checked) > MAX_TODO_ITEMS:
        raise TooLarge(f"a todo list may have at most {MAX_TODO_ITEMS} items: remove finished ones", field="items")
    return Todo(items=checked)
