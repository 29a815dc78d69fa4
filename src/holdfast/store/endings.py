"""How runs end from outside: a tree at once, with nothing left open."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.domain.events import Event, RunError, RunFinished, ToolCallResult, decode
from holdfast.domain.events.custom import PlanChanged, to_custom
from holdfast.domain.events.input import Cancelled
from holdfast.domain.ids import MessageId
from holdfast.domain.message import NewMessage, Role, ToolCall, open_calls
from holdfast.domain.plan import Plan
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.run import RunError as WhyItFailed
from holdfast.domain.stream import STRUCTURAL_TYPES, Stream
from holdfast.ports.event_log import Growth, Head
from holdfast.store.encoding import dump, dump_optional
from holdfast.store.inbox import tell_parent
from holdfast.store.messages import enter_input, last_exchange, message_values, take_sequences
from holdfast.store.notifications import news_row
from holdfast.store.prepared import event_row, message_row
from holdfast.store.run_rows import run_by_key
from holdfast.store.subscriptions import tell_subscribers
from holdfast.store.transaction import Again, Row, Transaction
from holdfast.store.unread import keep_values, unread_of_people
from holdfast.store.values import inherit

_STRUCTURAL = dump(sorted(STRUCTURAL_TYPES))


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How, why, and by whom."""

    to: RunStatus
    reason: str | None = None
    error: WhyItFailed | None = None
    by: str | None = None


async def end_trees(tx: Transaction, run_keys: Sequence[int], ending: Ending) -> list[Run]:
    """End the live runs of these trees, parents first, and return them."""
    ended = [row for row in await lock_trees(tx, run_keys) if not RunStatus(row["status"]).terminal]
    runs = [await _end(tx, row, ending) for row in ended]
    keys = {row["run_key"] for row in ended}
    for row, run in zip(ended, runs, strict=True):
        await tell_parent(tx, row["parent_key"], run, besides=keys)
    await tell_subscribers(tx, {row["run_key"]: run for row, run in zip(ended, runs, strict=True)})
    return runs


async def lock_trees(tx: Transaction, run_keys: Sequence[int]) -> list[Row]:
    """Hold these runs and all below them, with their threads, and the parents that may be told of their end."""
    tree = await _tree(tx, run_keys)
    told = {row["parent_key"] for row in tree} - {None}
    await tx.lock(threads={row["thread_key"] for row in tree}, runs=told | {row["run_key"] for row in tree})
    locked = await _tree(tx, run_keys)
    if len(locked) != len(tree):
        raise Again  # a child came in between: lock it too
    return locked


async def let_dependants_go(tx: Transaction, run_keys: Sequence[int]) -> None:
    """Queue the runs that waited for these, which have ended and have no worker any more.

    Of those one that was ended before it could begin lets its own dependants go.
    """
    over = list(run_keys)
    while over:
        waiting = await tx.many("waiting_on_bases", [(key,) for key in over])
        over = [row["run_key"] for row in waiting if RunStatus(row["status"]).terminal]
        for row in waiting:
            await inherit(tx, row["run_key"], base_key=row["base_key"], base_sequence=row["base_sequence"])
            await enter_input(tx, row["run_key"], row["thread_key"])
            if not RunStatus(row["status"]).terminal:
                await tx.run("queue_pending", run_key=row["run_key"], now=tx.now)
                tx.wake(queue=True)


async def _tree(tx: Transaction, run_keys: Iterable[int]) -> list[Row]:
    found = {row["run_key"]: row for key in run_keys for row in await tx.all("tree", run_key=key)}
    return [found[key] for key in sorted(found)]


async def _end(tx: Transaction, row: Row, ending: Ending) -> Run:
    run_key = row["run_key"]
    run = await run_by_key(tx, run_key)
    calls = open_calls(await last_exchange(tx, run_key))
    answers = [_answer(call, MessageId(tx.new_id("msg")), ending) for call in calls]
    left = await unread_of_people(tx, row)
    events = await _closing_events(tx, run_key, run, answers, left.plan, ending)
    await _add_messages(tx, row, [*answers, *left.said], begun=run.queued_at is not None)
    await keep_values(tx, run_key, left.values, left.plan)
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
    await tx.run("end_run", run_key=run_key, error=dump_optional(error), cancelled_by=ending.by, now=tx.now)
    for statement in ("stop_timers", "close_open_interrupts"):
        await tx.many(statement, [(run_key,)])
    await tx.many("cut_off_started_steps", [(tx.now, run_key)])
    await tx.run("forget_waits", run_key=run_key)
    if head["lease_owner"] is None and head["queued_at"] is not None:
        await let_dependants_go(tx, [run_key])
    await tx.many("add_to_outbox", [news_row(tx, row["space_key"], run, ending.to, ending.reason)])
    told = Head(space_id=run.space_id, run_id=run.id, status=ending.to, last_event_seq=head["last_event_seq"])
    tx.wake(grown=Growth(head=told, events=closing, at=tx.now), ended=(run.space_id, run.id), news=True)
    return await run_by_key(tx, run_key)


def _answer(call: ToolCall, message_id: MessageId, ending: Ending) -> NewMessage:
    text = f"not answered: the run was {ending.to} before this call came back"
    return NewMessage(id=message_id, role=Role.TOOL, content=text, tool_call_id=call.id)


async def _add_messages(tx: Transaction, row: Row, messages: Sequence[NewMessage], *, begun: bool) -> None:
    """Let messages enter the conversation; where the run has not begun, they wait behind its input."""
    if not messages:
        return
    first = await take_sequences(tx, row["thread_key"], len(messages)) if begun else None
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
    tx: Transaction, run_key: int, run: Run, answers: Sequence[NewMessage], plan: Plan | None, ending: Ending
) -> list[Event]:
    """Return what closes the stream: results for the open calls, the plan if people changed it, then the end."""
    logged = await tx.all("events_of_types_after", run_key=run_key, seq=0, types=_STRUCTURAL, limit=2**31)
    stream = Stream.resume(
        run.thread_id, run.id, [decode(row["data"].encode()) for row in logged], base_run_id=run.base_run_id
    )
    events: list[Event] = []
    for answer in answers:
        assert answer.id is not None and answer.tool_call_id is not None and isinstance(answer.content, str)
        result = ToolCallResult(message_id=answer.id, tool_call_id=answer.tool_call_id, content=answer.content)
        events += stream.feed(result, at=tx.now)
    if plan is not None:
        events += stream.feed(to_custom(PlanChanged(items=plan.items)), at=tx.now)
    return events + stream.end(_terminal(run, ending), at=tx.now)


def _terminal(run: Run, ending: Ending) -> RunFinished | RunError:
    if ending.to is RunStatus.CANCELLED:
        return RunFinished(thread_id=run.thread_id, run_id=run.id, outcome=Cancelled())
    error = ending.error or WhyItFailed(code="FAILED", message=ending.reason or "the run failed")
    return RunError(message=error.message, code=error.code)
