"""`InboxReader`: the unread inbox items of a run, and their decoding.

An item resumes a waiting call, or is a message or an edit, or is obsolete. It is consumed in the commit that uses it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.events.messages import AgUiInterrupt
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId
from holdfast.domain.inbox import InboxItem, InboxKind, decode_edit, decode_steering_message
from holdfast.domain.message import STEERING_METADATA_KEY, NewMessage, Role
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.run import RunError, RunStatus
from holdfast.domain.untrusted import SOURCE_METADATA_KEY
from holdfast.tools.content import as_text
from holdfast.tools.tool import ChildEnded, InterruptResolved, ResumeCause, TaskEnded, TimerFired


class InboxReader:
    """The unread items of a run, oldest first. Items that are taken are not returned again."""

    def __init__(self, items: Iterable[InboxItem] = ()) -> None:
        self._items = {item.number: item for item in items}
        self._consumed: set[int] = set()

    def add(self, items: Iterable[InboxItem]) -> None:
        """Add items, except those that were taken before."""
        self._items |= {item.number: item for item in items if item.number not in self._consumed}

    @property
    def empty(self) -> bool:
        """Whether every item was taken."""
        return not self._items

    @property
    def has_message(self) -> bool:
        """Whether there is a message from a person."""
        return any(item.kind is InboxKind.MESSAGE for item in self._items.values())

    @property
    def has_run_end(self) -> bool:
        """Whether there is the end of a child or of an awaited run."""
        return any(_is_run_end(item) for item in self._items.values())

    def take_resume_cause(self, key: str) -> tuple[ResumeCause, list[InboxItem]] | None:
        """Take the cause that resumes the wait with that key, and the items that state it.

        The end of a child that the run also subscribed to arrives as two items.
        """
        for item in self._items.values():
            cause = _resume_cause(item, key)
            if cause is None:
                continue
            items = [item]
            if item.kind is InboxKind.TASK:
                run_id = _parse_run_end(item).run_id
                children = [each for each in self._items.values() if each.kind is InboxKind.CHILD]
                items += [each for each in children if _parse_run_end(each).run_id == run_id]
            self._mark_consumed(items)
            return cause, items
        return None

    def take_interrupt_items(self) -> list[InboxItem]:
        """Take the items that open interrupts of children or close interrupts."""
        items = [item for item in self._items.values() if item.kind in (InboxKind.CHILD_INTERRUPT, InboxKind.RESPONSE)]
        self._mark_consumed(items)
        return items

    def take_all(self) -> list[InboxItem]:
        """Take all remaining items."""
        items = list(self._items.values())
        self._mark_consumed(items)
        return items

    def _mark_consumed(self, items: Iterable[InboxItem]) -> None:
        for item in items:
            self._consumed.add(item.number)
            del self._items[item.number]


def messages_from(items: Sequence[InboxItem]) -> list[NewMessage]:
    """Return the messages of people, and messages about ended runs; none of them starts a turn."""
    children = {_parse_run_end(item).run_id for item in items if item.kind is InboxKind.CHILD}
    unique = [item for item in items if item.kind is not InboxKind.TASK or _parse_run_end(item).run_id not in children]
    return [message for item in unique if (message := _to_message(item)) is not None]


def decode_child_interrupts(item: InboxItem) -> tuple[RunId, list[AgUiInterrupt]]:
    """Return a child and its open interrupts."""
    decoded = msgspec.convert(item.data, _ChildInterrupts)
    return decoded.run_id, decoded.interrupts


def decode_closed_interrupt_id(item: InboxItem) -> InterruptId | None:
    """Return the interrupt that an item closes, if it closes one."""
    return InterruptId(_parse_response(item).interrupt_id) if item.kind is InboxKind.RESPONSE else None


def requested_segment_id(items: Sequence[InboxItem]) -> RunId | None:
    """Return the id that the newest response gives the run's next segment, if any does."""
    for item in reversed(items):
        if item.kind is InboxKind.RESPONSE and (segment := _parse_response(item).segment) is not None:
            return segment
    return None


def edited_values(items: Sequence[InboxItem]) -> dict[str, Json]:
    """Return the values that people edited."""
    values: dict[str, Json] = {}
    for edit in filter(None, map(decode_edit, items)):
        values |= edit.values
    return values


def plan_edits(items: Sequence[InboxItem]) -> list[PlanEdit]:
    """Return the edits that people made to the plan."""
    return [edit.plan for edit in filter(None, map(decode_edit, items)) if edit.plan is not None]


def child_ended_events(items: Sequence[InboxItem]) -> list[ChildChanged]:
    """Return an event for each child that ended without a call waiting for it."""
    ends = [_parse_run_end(item) for item in items if item.kind is InboxKind.CHILD]
    return [ChildChanged(run_id=ended.run_id, thread_id=ended.thread_id, status=ended.status) for ended in ends]


def taint_sources(items: Sequence[InboxItem]) -> list[str]:
    """Return the untrusted sources that the ended runs had read: a reader of their output inherits them."""
    return [name for item in items if _is_run_end(item) for name in _parse_run_end(item).taint]


class _RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    output: Json = None
    error: RunError | None = None
    taint: Sequence[str] = ()


class _ChildInterrupts(msgspec.Struct, frozen=True, kw_only=True):
    run_id: RunId
    interrupts: list[AgUiInterrupt]


class _InterruptResponseItem(msgspec.Struct, frozen=True, kw_only=True):
    interrupt_id: str
    response: Json = None
    expired: bool = False
    segment: RunId | None = None
    message_id: MessageId | None = None
    granted: Sequence[str] = ()


def _is_run_end(item: InboxItem) -> bool:
    return item.kind is InboxKind.CHILD or item.kind is InboxKind.TASK


def _parse_response(item: InboxItem) -> _InterruptResponseItem:
    return msgspec.convert(item.data, _InterruptResponseItem)


def _parse_run_end(item: InboxItem) -> _RunEnd:
    return msgspec.convert(item.data, _RunEnd)


def _resume_cause(item: InboxItem, key: str) -> ResumeCause | None:
    match item.kind:
        case InboxKind.RESPONSE:
            resolved = _parse_response(item)
            if resolved.interrupt_id == derived_id("int", key=key):
                return InterruptResolved(
                    response=resolved.response,
                    by=item.created_by,
                    expired=resolved.expired,
                    message_id=resolved.message_id,
                    granted=resolved.granted,
                )
        case InboxKind.CHILD:
            if _parse_run_end(item).run_id == derived_id("run", key=key):
                return _run_end_cause(ChildEnded, _parse_run_end(item))
        case InboxKind.TASK:
            if item.data["key"] == key:
                return _run_end_cause(TaskEnded, _parse_run_end(item))
        case InboxKind.TIMER:
            if item.data["timer_id"] == derived_id("tmr", key=key):
                return TimerFired()
        case InboxKind.MESSAGE | InboxKind.EDIT | InboxKind.CHILD_INTERRUPT:
            pass
    return None


def _run_end_cause(kind: type[ChildEnded], end: _RunEnd) -> ChildEnded:
    return kind(run_id=end.run_id, status=end.status, output=end.output, error=end.error, taint=end.taint)


def _to_message(item: InboxItem) -> NewMessage | None:
    if item.kind is InboxKind.MESSAGE:
        return decode_steering_message(item)
    if not _is_run_end(item):
        return None
    end = _parse_run_end(item)
    relation = "which you started in the background" if item.kind is InboxKind.CHILD else "which you asked about"
    if end.status is RunStatus.COMPLETED:
        outcome = f"has completed: {as_text(end.output)}"
    else:
        outcome = "was cancelled" if end.status is RunStatus.CANCELLED else "has failed"
        outcome += "" if end.error is None else f": {end.error.code}: {end.error.message}"
    return NewMessage(
        role=Role.USER,
        content=f"Run `{end.run_id}`, {relation}, {outcome}",
        metadata={STEERING_METADATA_KEY: True, "child": end.run_id, SOURCE_METADATA_KEY: f"run:{end.run_id}"},
    )
