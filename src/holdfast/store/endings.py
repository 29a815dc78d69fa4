"""Ending runs from outside: a whole tree in one transaction, with nothing left open.

Messages, values and plan edits that people sent and the run had not read are saved with it.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, IdTaken
from holdfast.domain.events import Event, RunErrorEvent, RunFinished, ToolCallResult, decode_event
from holdfast.domain.events.custom import PlanChanged, to_custom
from holdfast.domain.events.messages import CancelledOutcome
from holdfast.domain.ids import MessageId
from holdfast.domain.inbox import InboxItem, decode_edit, decode_steering_message, is_from_person
from holdfast.domain.message import NewMessage, Role, ToolCall, unanswered_calls
from holdfast.domain.plan import Plan
from holdfast.domain.plan_edit import PlanEdit, apply_edits
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.run import RunError as WhyItFailed
from holdfast.domain.stream import STRUCTURAL_TYPES, StreamNormaliser
from holdfast.ports.log import LogAppend, LogHead
from holdfast.store.commit_rows import event_row, message_row
from holdfast.store.encoding import dump_json, dump_optional_json
from holdfast.store.inbox import notify_parent, notify_subscribers, to_inbox_item
from holdfast.store.messages import (
    ChainTip,
    check_new_ids,
    last_exchange,
    message_values,
    reserve_sequences,
    sequence_input,
)
from holdfast.store.notifications import notification_row
from holdfast.store.run_rows import run_by_key, run_row_by_key
from holdfast.store.run_state import inherit_values, values_of_run
from holdfast.store.transaction import RetryTransaction, Row, Transaction

_STRUCTURAL_EVENT_TYPES = dump_json(sorted(STRUCTURAL_TYPES))


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How, why, and by whom."""

    to: RunStatus
    reason: str | None = None
    error: WhyItFailed | None = None
    by: str | None = None


async def end_run_trees(tx: Transaction, run_keys: Sequence[int], ending: RunEnd) -> list[Run]:
    """End the live runs of these trees, parents first, and return them."""
    ended = [row for row in await lock_run_trees(tx, run_keys) if not RunStatus(row["status"]).terminal]
    runs = [await _end_run(tx, row, ending) for row in ended]
    keys = {row["run_key"] for row in ended}
    for row, run in zip(ended, runs, strict=True):
        await notify_parent(tx, row["parent_key"], run, ending_keys=keys)
    await notify_subscribers(tx, {row["run_key"]: run for row, run in zip(ended, runs, strict=True)})
    return runs


async def lock_run_trees(tx: Transaction, run_keys: Sequence[int]) -> list[Row]:
    """Hold these runs and all below them, with their threads, and the parents that may be told of their end."""
    tree = await _tree_rows(tx, run_keys)
    told = {row["parent_key"] for row in tree} - {None}
    await tx.lock(threads={row["thread_key"] for row in tree}, runs=told | {row["run_key"] for row in tree})
    locked = await _tree_rows(tx, run_keys)
    if len(locked) != len(tree):
        raise RetryTransaction  # a child came in between: lock it too
    return locked


async def queue_dependent_runs(tx: Transaction, run_keys: Sequence[int]) -> None:
    """Queue the runs that waited for these, which have ended and have no worker any more.

    Of those one that was ended before it could begin lets its own dependants go.
    """
    over = list(run_keys)
    while over:
        waiting = await tx.many("waiting_on_bases", [(key,) for key in over])
        over = [row["run_key"] for row in waiting if RunStatus(row["status"]).terminal]
        for row in waiting:
            await inherit_values(tx, row["run_key"], base_key=row["base_key"], base_sequence=row["base_sequence"])
            await sequence_input(tx, row["run_key"], row["thread_key"])
            if not RunStatus(row["status"]).terminal:
                await tx.run("queue_pending", run_key=row["run_key"], now=tx.now)
                tx.wake(queue=True)


async def _tree_rows(tx: Transaction, run_keys: Iterable[int]) -> list[Row]:
    found = {row["run_key"]: row for key in run_keys for row in await tx.all("tree", run_key=key)}
    return [found[key] for key in sorted(found)]


async def _end_run(tx: Transaction, row: Row, ending: RunEnd) -> Run:
    run_key = row["run_key"]
    run = await run_by_key(tx, run_key)
    calls = unanswered_calls(await last_exchange(tx, run_key))
    answers = [_result_for_open_call(call, MessageId(tx.new_id("msg")), ending) for call in calls]
    left = await unread_input(tx, row)
    events = await _closing_events(tx, run_key, run, answers, left.plan, ending)
    await _add_messages(tx, row, [*answers, *left.messages], begun=run.queued_at is not None)
    await save_values(tx, run_key, left.values, left.plan)
    head = await tx.one(
        "end_head",
        run_key=run_key,
        status=ending.to.value,
        reason=ending.reason,
        events=len(events),
        read=len(left.numbers),
    )
    assert head is not None
    await tx.many("consume", [(run_key, number) for number in left.numbers])
    first = head["last_event_seq"] - len(events) + 1
    closing = list(map(event_row, events))
    await tx.many("add_events", [(run_key, seq, *row, tx.now) for seq, row in enumerate(closing, start=first)])
    error = ending.error and replace(ending.error, iteration=run.iterations)
    await tx.run("end_run", run_key=run_key, error=dump_optional_json(error), cancelled_by=ending.by, now=tx.now)
    for statement in ("stop_timers", "close_open_interrupts"):
        await tx.many(statement, [(run_key,)])
    await tx.many("cut_off_started_steps", [(tx.now, run_key)])
    await tx.run("forget_waits", run_key=run_key)
    if head["lease_owner"] is None and head["queued_at"] is not None:
        await queue_dependent_runs(tx, [run_key])
    await tx.many("add_to_outbox", [notification_row(tx, row["space_key"], run, ending.to, ending.reason)])
    told = LogHead(space_id=run.space_id, run_id=run.id, status=ending.to, last_event_seq=head["last_event_seq"])
    tx.wake(grown=LogAppend(head=told, events=closing, at=tx.now), ended=(run.space_id, run.id), news=True)
    return await run_by_key(tx, run_key)


def _result_for_open_call(call: ToolCall, message_id: MessageId, ending: RunEnd) -> NewMessage:
    text = f"not answered: the run was {ending.to} before this call came back"
    return NewMessage(id=message_id, role=Role.TOOL, content=text, tool_call_id=call.id)


async def _add_messages(tx: Transaction, row: Row, messages: Sequence[NewMessage], *, begun: bool) -> None:
    """Let messages enter the conversation; where the run has not begun, they wait behind its input."""
    if not messages:
        return
    first = await reserve_sequences(tx, row["thread_key"], len(messages)) if begun else None
    values = [
        message_values(
            tx,
            message_row(message),
            thread_key=row["thread_key"],
            run_key=row["run_key"],
            sequence=None if first is None else first + index,
        )
        for index, message in enumerate(messages)
    ]
    await tx.many("add_messages", values)


async def _closing_events(
    tx: Transaction, run_key: int, run: Run, answers: Sequence[NewMessage], plan: Plan | None, ending: RunEnd
) -> list[Event]:
    """Return what closes the stream: results for the open calls, the plan if people changed it, then the end."""
    logged = await tx.all("events_of_types_after", run_key=run_key, seq=0, types=_STRUCTURAL_EVENT_TYPES, limit=2**31)
    stream = StreamNormaliser.resume(
        run.thread_id, run.id, [decode_event(row["data"].encode()) for row in logged], base_run_id=run.base_run_id
    )
    events: list[Event] = []
    for answer in answers:
        assert answer.id is not None and answer.tool_call_id is not None and isinstance(answer.content, str)
        result = ToolCallResult(message_id=answer.id, tool_call_id=answer.tool_call_id, content=answer.content)
        events += stream.feed(result, at=tx.now)
    if plan is not None:
        events += stream.feed(to_custom(PlanChanged(items=plan.items)), at=tx.now)
    return events + stream.end(_terminal_event(run, ending), at=tx.now)


def _terminal_event(run: Run, ending: RunEnd) -> RunFinished | RunErrorEvent:
    if ending.to is RunStatus.CANCELLED:
        return RunFinished(thread_id=run.thread_id, run_id=run.id, outcome=CancelledOutcome())
    error = ending.error or WhyItFailed(code="FAILED", message=ending.reason or "the run failed")
    return RunErrorEvent(message=error.message, code=error.code)


PLAN_VALUE = "plan"


class UnreadInput(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be kept of an inbox."""

    messages: Sequence[NewMessage]
    values: Mapping[str, Json]
    plan: Plan | None
    """With the edits, if there are any."""
    numbers: Sequence[int]


async def unread_input(tx: Transaction, run: Row) -> UnreadInput:
    """Return what people told a run that is held, oldest first."""
    rows = await tx.all("inbox_of_run", run_key=run["run_key"])
    items = [item for item in map(to_inbox_item, rows) if is_from_person(item) and _is_storable(item)]
    edits = [edit for edit in map(decode_edit, items) if edit is not None]
    changes = [edit.plan for edit in edits if edit.plan is not None]
    return UnreadInput(
        messages=await _without_used_ids(
            tx, run, [said for said in map(decode_steering_message, items) if said is not None]
        ),
        values={name: value for edit in edits for name, value in edit.values.items()},
        plan=await plan_with_edits(tx, await run_row_by_key(tx, run["run_key"]), changes) if changes else None,
        numbers=[item.number for item in items],
    )


async def plan_with_edits(tx: Transaction, run: Row, edits: Sequence[PlanEdit]) -> Plan:
    """Return the plan of a run, as the view shows it, with those edits that still fit it."""
    return apply_edits(msgspec.convert((await values_of_run(tx, run)).get(PLAN_VALUE) or {}, Plan), edits)


async def save_values(tx: Transaction, run_key: int, values: Mapping[str, Json], plan: Plan | None = None) -> None:
    """Keep values, and a plan if there is one, from the last message of their run on."""
    kept = dict(values) if plan is None else {**values, PLAN_VALUE: msgspec.to_builtins(plan)}
    if not kept:
        return
    (last,) = await tx.many("last_sequences", [(run_key,)])
    await tx.many(
        "add_values", [(run_key, name, last["last_sequence"], dump_json(value)) for name, value in kept.items()]
    )


def _is_storable(item: InboxItem) -> bool:
    """Say whether an item is nothing that no table takes: such a one must not keep its run from ending."""
    said = decode_steering_message(item)
    try:
        return said is None or message_row(said) is not None
    except HoldfastError:
        return False


async def _without_used_ids(tx: Transaction, run: Row, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return messages without the ids that were used before: they must not keep the run from ending."""
    kept: list[NewMessage] = []
    for message in messages:
        try:
            await check_new_ids(tx, [(ChainTip(run["thread_key"], run["run_key"]), [message_row(message)])])
        except IdTaken:
            message = replace(message, id=None)
        kept.append(replace(message, id=None) if message.id in {each.id for each in kept} else message)
    return kept
