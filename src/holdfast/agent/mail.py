"""What came in from outside and is not dealt with yet.

An item belongs to a call that waits for it, or is something to be said, or is of no use any more. It is consumed in
the commit that deals with it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.message import STEERING, NewMessage, Role
from holdfast.domain.plan_edit import PlanEdit
from holdfast.domain.run import RunError, RunStatus
from holdfast.domain.untrusted import SOURCE
from holdfast.domain.values import check_value_names
from holdfast.tools.content import as_text
from holdfast.tools.tool import Answered, Arrival, ChildEnded, TimeCame


class Mail:
    """Unread items, the oldest first."""

    def __init__(self, items: Iterable[InboxItem] = ()) -> None:
        self._items = {item.number: item for item in items}
        self._done: set[int] = set()

    def put(self, items: Iterable[InboxItem]) -> None:
        """Add what was read; what was dealt with before is left."""
        self._items |= {item.number: item for item in items if item.number not in self._done}

    @property
    def disturbs(self) -> bool:
        """Whether a person said something that should not wait."""
        return any(item.kind is InboxKind.MESSAGE for item in self._items.values())

    def arrival(self, key: str) -> tuple[Arrival, int] | None:
        """Return what came for the call of that key, and the number of the item. It is then dealt with."""
        for item in self._items.values():
            arrived = _arrival(item, key)
            if arrived is not None:
                self._finish(item)
                return arrived, item.number
        return None

    def rest(self) -> list[InboxItem]:
        """Return all that is left. It is then dealt with."""
        items = list(self._items.values())
        for item in items:
            self._finish(item)
        return items

    def _finish(self, item: InboxItem) -> None:
        self._done.add(item.number)
        del self._items[item.number]


def spoken(items: Sequence[InboxItem]) -> list[NewMessage]:
    """Return what people and children said, as messages that begin no turn."""
    return [message for item in items if (message := _message(item)) is not None]


def segment_name(items: Sequence[InboxItem]) -> RunId | None:
    """Return how those who answered call what the run says next, if they do."""
    names = [_read_answer(item).segment for item in items if item.kind is InboxKind.ANSWER]
    return next((name for name in reversed(names) if name is not None), None)


def edits(items: Sequence[InboxItem]) -> dict[str, Json]:
    """Return the values that people put in place of others."""
    values: dict[str, Json] = {}
    for item in items:
        if item.kind is InboxKind.EDIT:
            values |= item.data.get("values", {})
    check_value_names(values)
    return values


def plan_edits(items: Sequence[InboxItem]) -> list[PlanEdit]:
    """Return what people changed of the plan."""
    found = [item.data.get("plan") for item in items if item.kind is InboxKind.EDIT]
    return [msgspec.convert(edit, PlanEdit) for edit in found if edit is not None]


def ended_children(items: Sequence[InboxItem]) -> list[ChildChanged]:
    """Return the events of children that nobody waited for."""
    return [
        ChildChanged(run_id=ended.run_id, thread_id=ended.thread_id, status=ended.status)
        for item in items
        if item.kind is InboxKind.CHILD
        for ended in [_ended(item)]
    ]


class _Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a child, as it is told to its parent."""

    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    output: Json = None
    error: RunError | None = None


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    interrupt_id: str
    response: Json = None
    expired: bool = False
    segment: RunId | None = None


def _arrival(item: InboxItem, key: str) -> Arrival | None:
    match item.kind:
        case InboxKind.ANSWER:
            answer = _read_answer(item)
            if answer.interrupt_id == derived_id("int", key=key):
                return Answered(response=answer.response, by=item.created_by, expired=answer.expired)
        case InboxKind.CHILD:
            ended = _ended(item)
            if ended.run_id == derived_id("run", key=key):
                return ChildEnded(run_id=ended.run_id, status=ended.status, output=ended.output, error=ended.error)
        case InboxKind.TIMER:
            if item.data["timer_id"] == derived_id("tmr", key=key):
                return TimeCame()
        case InboxKind.MESSAGE | InboxKind.EDIT:
            pass
    return None


def _read_answer(item: InboxItem) -> _Answer:
    return msgspec.convert(item.data, _Answer)


def _ended(item: InboxItem) -> _Ended:
    return msgspec.convert(item.data, _Ended)


def _message(item: InboxItem) -> NewMessage | None:
    match item.kind:
        case InboxKind.MESSAGE:
            said = _said(item)
            return msgspec.structs.replace(
                said, role=Role.USER, metadata={**said.metadata, STEERING: True}, created_by=item.created_by
            )
        case InboxKind.CHILD:
            ended = _ended(item)
            return NewMessage(
                role=Role.USER,
                content=f"Run `{ended.run_id}`, which you started in the background, {_how(ended)}",
                metadata={STEERING: True, "child": ended.run_id, SOURCE: f"run:{ended.run_id}"},
            )
        case _:
            return None


def _how(ended: _Ended) -> str:
    if ended.status is RunStatus.COMPLETED:
        return f"has completed: {as_text(ended.output)}"
    how = "was cancelled" if ended.status is RunStatus.CANCELLED else "has failed"
    return how if ended.error is None else f"{how}: {ended.error.code}: {ended.error.message}"


def _said(item: InboxItem) -> NewMessage:
    try:
        return msgspec.convert(item.data, NewMessage)
    except msgspec.ValidationError as exc:
        raise Invalid(f"item {item.number} of the inbox is not a message: {exc}") from exc
