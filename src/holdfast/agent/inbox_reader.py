"""`InboxReader`: unread inbox items of a run, and what they say.

An item resumes a waiting call, or is a message or an edit, or is obsolete. It is consumed in the commit that uses it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.events.messages import AgUiInterrupt as AskedInterrupt
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, ThreadId
from holdfast.domain.inbox import InboxItem, InboxKind, decode_edit, decode_steering_message
from holdfast.domain.message import STEERING_METADATA_KEY, NewMessage, Role
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.run import RunError, RunStatus
from holdfast.domain.untrusted import SOURCE_METADATA_KEY
from holdfast.tools.content import as_text
from holdfast.tools.tool import ChildEnded, InterruptResolved, ResumeCause, TaskEnded, TimerFired

_RUN_END_KINDS: Final = frozenset({InboxKind.CHILD, InboxKind.TASK})


class InboxReader:
    """Unread items, the oldest first."""

    def __init__(self, items: Iterable[InboxItem] = ()) -> None:
        self._items = {item.number: item for item in items}
        self._consumed: set[int] = set()

    def add(self, items: Iterable[InboxItem]) -> None:
        """Add what was read; what was dealt with before is left."""
        self._items |= {item.number: item for item in items if item.number not in self._consumed}

    @property
    def empty(self) -> bool:
        """Whether all of it is dealt with."""
        return not self._items

    @property
    def has_message(self) -> bool:
        """Whether a person said something that should not wait."""
        return any(item.kind is InboxKind.MESSAGE for item in self._items.values())

    @property
    def has_run_end(self) -> bool:
        """Whether a run has ended that this one is told of."""
        return any(item.kind in _RUN_END_KINDS for item in self._items.values())

    def take_resume_cause(self, key: str) -> tuple[ResumeCause, list[InboxItem]] | None:
        """Return what came for the call of that key, and the items that say so. They are then dealt with."""
        for item in self._items.values():
            arrived = _resume_cause(item, key)
            if arrived is not None:
                items = [item, *self._duplicate_run_ends(item)]
                for each in items:
                    self._mark_consumed(each)
                return arrived, items
        return None

    def take_interrupt_items(self) -> list[InboxItem]:
        """Return what says that children ask something, or that a question was closed. It is then dealt with."""
        items = [item for item in self._items.values() if item.kind in (InboxKind.CHILD_INTERRUPT, InboxKind.RESPONSE)]
        for item in items:
            self._mark_consumed(item)
        return items

    def take_all(self) -> list[InboxItem]:
        """Return all that is left. It is then dealt with."""
        items = list(self._items.values())
        for item in items:
            self._mark_consumed(item)
        return items

    def _duplicate_run_ends(self, item: InboxItem) -> list[InboxItem]:
        """Return the end of a child that the run was told of because it is a child, beside what it asked to be told."""
        if item.kind is not InboxKind.TASK:
            return []
        run_id = _parse_run_end(item).run_id
        return [
            each
            for each in self._items.values()
            if each.kind is InboxKind.CHILD and _parse_run_end(each).run_id == run_id
        ]

    def _mark_consumed(self, item: InboxItem) -> None:
        self._consumed.add(item.number)
        del self._items[item.number]


def messages_from(items: Sequence[InboxItem]) -> list[NewMessage]:
    """Return what people and children said, as messages that begin no turn."""
    children = {_parse_run_end(item).run_id for item in items if item.kind is InboxKind.CHILD}
    told = [item for item in items if item.kind is not InboxKind.TASK or _parse_run_end(item).run_id not in children]
    return [message for item in told if (message := _to_message(item)) is not None]


def decode_child_interrupts(item: InboxItem) -> tuple[RunId, list[AskedInterrupt]]:
    """Return which child asks what."""
    asked = msgspec.convert(item.data, _ChildInterrupts)
    return asked.run_id, asked.interrupts


def decode_closed_interrupt_id(item: InboxItem) -> InterruptId | None:
    """Return the question that an item closes."""
    return InterruptId(_parse_response(item).interrupt_id) if item.kind is InboxKind.RESPONSE else None


def requested_segment_id(items: Sequence[InboxItem]) -> RunId | None:
    """Return how those who answered call what the run says next, if they do."""
    for item in reversed(items):
        if item.kind is InboxKind.RESPONSE and (name := _parse_response(item).segment) is not None:
            return name
    return None


def edited_values(items: Sequence[InboxItem]) -> dict[str, Json]:
    """Return the values that people put in place of others."""
    values: dict[str, Json] = {}
    for edit in filter(None, map(decode_edit, items)):
        values |= edit.values
    return values


def plan_edits(items: Sequence[InboxItem]) -> list[PlanEdit]:
    """Return what people changed of the plan."""
    return [edit.plan for edit in filter(None, map(decode_edit, items)) if edit.plan is not None]


def child_ended_events(items: Sequence[InboxItem]) -> list[ChildChanged]:
    """Return the events of children that nobody waited for."""
    return [
        ChildChanged(run_id=ended.run_id, thread_id=ended.thread_id, status=ended.status)
        for item in items
        if item.kind is InboxKind.CHILD
        for ended in [_parse_run_end(item)]
    ]


def taint_sources(items: Sequence[InboxItem]) -> list[str]:
    """Return what the authors of items have read of others: whoever reads what they say has read that too."""
    return [name for item in items for name in _item_taint(item)]


class _RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a child, as it is told to its parent."""

    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    output: Json = None
    error: RunError | None = None
    taint: Sequence[str] = ()


class _ChildInterrupts(msgspec.Struct, frozen=True, kw_only=True):
    run_id: RunId
    interrupts: list[AskedInterrupt]


class _InterruptResponseItem(msgspec.Struct, frozen=True, kw_only=True):
    interrupt_id: str
    response: Json = None
    expired: bool = False
    segment: RunId | None = None


def _resume_cause(item: InboxItem, key: str) -> ResumeCause | None:
    match item.kind:
        case InboxKind.RESPONSE:
            answer = _parse_response(item)
            if answer.interrupt_id == derived_id("int", key=key):
                return InterruptResolved(response=answer.response, by=item.created_by, expired=answer.expired)
        case InboxKind.CHILD:
            ended = _parse_run_end(item)
            if ended.run_id == derived_id("run", key=key):
                return ChildEnded(
                    run_id=ended.run_id,
                    status=ended.status,
                    output=ended.output,
                    error=ended.error,
                    taint=ended.taint,
                )
        case InboxKind.TASK:
            if item.data["key"] == key:
                told = _parse_run_end(item)
                return TaskEnded(
                    run_id=told.run_id, status=told.status, output=told.output, error=told.error, taint=told.taint
                )
        case InboxKind.TIMER:
            if item.data["timer_id"] == derived_id("tmr", key=key):
                return TimerFired()
        case InboxKind.MESSAGE | InboxKind.EDIT | InboxKind.CHILD_INTERRUPT:
            pass
    return None


def _parse_response(item: InboxItem) -> _InterruptResponseItem:
    return msgspec.convert(item.data, _InterruptResponseItem)


def _parse_run_end(item: InboxItem) -> _RunEnd:
    return msgspec.convert(item.data, _RunEnd)


def _to_message(item: InboxItem) -> NewMessage | None:
    match item.kind:
        case InboxKind.MESSAGE:
            return decode_steering_message(item)
        case InboxKind.CHILD | InboxKind.TASK:
            ended = _parse_run_end(item)
            why = "which you started in the background" if item.kind is InboxKind.CHILD else "which you asked about"
            return NewMessage(
                role=Role.USER,
                content=f"Run `{ended.run_id}`, {why}, {_describe_end(ended)}",
                metadata={
                    STEERING_METADATA_KEY: True,
                    "child": ended.run_id,
                    SOURCE_METADATA_KEY: f"run:{ended.run_id}",
                },
            )
        case _:
            return None


def _describe_end(ended: _RunEnd) -> str:
    if ended.status is RunStatus.COMPLETED:
        return f"has completed: {as_text(ended.output)}"
    how = "was cancelled" if ended.status is RunStatus.CANCELLED else "has failed"
    return how if ended.error is None else f"{how}: {ended.error.code}: {ended.error.message}"


def _item_taint(item: InboxItem) -> Sequence[str]:
    match item.kind:
        case InboxKind.CHILD | InboxKind.TASK:
            return _parse_run_end(item).taint
        case _:
            return []
