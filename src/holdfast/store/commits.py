"""Commits of runs, written in batches.

Each statement runs once for a whole batch. The fence rejects a commit whose lease was lost before any of its rows are
written. Any other failure rolls back the batch; its commits are then written one by one, so that each succeeds or fails
alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from holdfast.domain.commit import Committed, Lease
from holdfast.domain.condition import USAGE_EVENT, ConditionEvent, Occurrence
from holdfast.domain.errors import Conflict, HoldfastError, InboxNotEmpty, Invalid, LeaseLost
from holdfast.domain.ids import InterruptId, MessageId
from holdfast.domain.instant import millis
from holdfast.domain.interrupt import DEFAULT_INTERRUPT_TIMEOUT_MS, NewInterrupt
from holdfast.domain.notification import NOTIFICATION_KINDS
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.ports.log import LogAppend, LogHead
from holdfast.store.artifacts import add_artifact
from holdfast.store.commit_rows import PreparedCommit, usage_values
from holdfast.store.conditions import (
    RUN_EVENTS,
    message_occurrences,
    note_answer,
    note_occurrences,
    plan_is_completed,
    run_occurrence,
)
from holdfast.store.creation import CreateRunRequest, create_run
from holdfast.store.encoding import dump_json, dump_optional_json
from holdfast.store.inbox import add_waits, dependencies_of_waits, notify_parent, notify_subscribers
from holdfast.store.interrupts import ancestor_run_keys, notify_of_closed_interrupt, notify_parent_of_interrupts
from holdfast.store.memories import put_run_memory
from holdfast.store.messages import ChainTip, check_new_ids, message_values
from holdfast.store.notifications import notification_row
from holdfast.store.run_end import PLAN_VALUE, queue_dependent_runs
from holdfast.store.run_state import add_spending, check_budgets, spent_of_nearest_budget
from holdfast.store.space_budgets import warn_of_space_budgets
from holdfast.store.timers import timer_values
from holdfast.store.transaction import Batch, Row, Transaction, store_time
from holdfast.store.usage import record_usage
from holdfast.store.worker_leases import earlier_results, keep_results


async def apply_commits(tx: Transaction, commits: Sequence[PreparedCommit]) -> list[Committed | HoldfastError]:
    """Write commits of different runs and return the result of each."""
    if all(commit.events_only for commit in commits):
        return await _append_events_only(tx, commits)
    locked = await _lock_rows(tx, commits)
    results = await earlier_results(tx, commits)
    fresh = [commit for commit in commits if commit.lease.run_key not in results]
    written = dict(zip((commit.lease.run_key for commit in fresh), await _write(tx, fresh, locked=locked), strict=True))
    await keep_results(tx, fresh, written)
    return [(results | written)[commit.lease.run_key] for commit in commits]


async def _write(
    tx: Transaction, commits: Sequence[PreparedCommit], *, locked: frozenset[int]
) -> list[Committed | HoldfastError]:
    heads = {row["run_key"]: row for row in await tx.append([commit.entry for commit in commits])}
    accepted = [commit for commit in commits if commit.lease.run_key in heads and not commit.events_only]
    sequences, message_ids = await _add_messages(tx, accepted)
    consumed = [(commit.lease.run_key, number) for commit in accepted for number in commit.commit.consumed]
    if len(await tx.many("consume", consumed)) != len(consumed):
        raise Invalid("a consumed inbox item does not exist, or was consumed before", field="consumed")
    steps = [
        (commit.lease.run_key, *values, commit.lease.owner, tx.now, tx.now, tx.now if step.state.settled else None)
        for commit in accepted
        for step, values in zip(commit.commit.steps, commit.steps, strict=True)
    ]
    if len(await tx.many("put_steps", steps)) != len(steps):
        raise Conflict("a step of this commit has settled before, and a step settles once")
    await _add_values(tx, accepted, sequences)
    await _add_usage(tx, accepted)
    await _add_contexts(tx, accepted)
    await _add_rare_parts(tx, [commit for commit in accepted if commit.has_rare_parts])
    await _move_runs(tx, accepted, locked=locked)
    await _note_occurrences(tx, accepted)
    await warn_of_space_budgets(tx, [(commit.lease, commit.commit.usage) for commit in accepted])
    for commit in commits:
        if commit.lease.run_key in heads:
            _wake_watchers(tx, commit, heads[commit.lease.run_key]["last_event_seq"])
    return [
        Committed(
            last_event_seq=heads[key]["last_event_seq"],
            unread=heads[key]["unread"],
            spent=await spent_of_nearest_budget(tx, commit),
            message_ids=message_ids.get(key, ()),
            sequences=sequences.get(key, ()),
        )
        if (key := commit.lease.run_key) in heads
        else await _refusal_error(tx, commit)
        for commit in commits
    ]


async def _note_occurrences(tx: Transaction, accepted: Sequence[PreparedCommit]) -> None:
    """Tell the conditions of reminders what these commits did."""
    for prepared in accepted:
        if prepared.move is not None and prepared.move.to is RunStatus.COMPLETED:
            await note_answer(tx, prepared.lease.space_key, prepared.lease.run, prepared.move.output)
    await note_occurrences(tx, chain.from_iterable(map(_occurrences, accepted)))


def _occurrences(prepared: PreparedCommit) -> Iterator[tuple[int, Occurrence]]:
    """Yield what a commit did, with its space."""
    commit, run, space = prepared.commit, prepared.lease.run, prepared.lease.space_key
    if commit.usage is not None:
        cost = commit.usage.cost_usd or 0.0
        yield space, run_occurrence(run, USAGE_EVENT, tokens=commit.usage.total_tokens, cost_usd=cost)
    for artifact in commit.artifacts:
        yield space, run_occurrence(run, ConditionEvent.ARTIFACT_CREATED, type=artifact.type.value)
    for memory in commit.memories:
        yield space, run_occurrence(run, ConditionEvent.MEMORY_CREATED, type=memory.type.value)
    if plan_is_completed(commit.values.get(PLAN_VALUE)):
        yield space, run_occurrence(run, ConditionEvent.PLAN_COMPLETED)
    if commit.consumed and commit.messages:
        for said in message_occurrences(run, commit.messages):
            yield space, said
    if prepared.move is not None and _notifies_people(prepared.move):
        yield space, run_occurrence(run, RUN_EVENTS[prepared.move.to])


async def _append_events_only(tx: Transaction, commits: Sequence[PreparedCommit]) -> list[Committed | HoldfastError]:
    """Write commits that only add events. The append may be committed on return, so nothing after it may fail."""
    heads = {row["run_key"]: row for row in await tx.append([commit.entry for commit in commits], alone=True)}
    outcomes: list[Committed | HoldfastError] = []
    for commit in commits:
        head = heads.get(commit.lease.run_key)
        if head is None:
            outcomes.append(_lease_lost_error(commit.lease))
        else:
            _wake_watchers(tx, commit, head["last_event_seq"])
            outcomes.append(Committed(last_event_seq=head["last_event_seq"], unread=head["unread"]))
    return outcomes


def _wake_watchers(tx: Transaction, commit: PreparedCommit, last_event_seq: int) -> None:
    lease = commit.lease
    head = LogHead(
        space_id=lease.space_id,
        run_id=lease.run_id,
        status=RunStatus.RUNNING if commit.move is None else commit.move.to,
        last_event_seq=last_event_seq,
    )
    tx.hints.add(grown=LogAppend(head=head, events=commit.entry.events, at=tx.now))


COMMIT_BATCH: Final = Batch(key=lambda commit: commit.lease.run_key, apply=apply_commits)


async def _lock_rows(tx: Transaction, commits: Iterable[PreparedCommit]) -> frozenset[int]:
    """Lock the rows that the fence does not: threads that get messages, and parents that will be notified.

    The dependencies of runs that start to wait are locked too, and their keys returned.
    """
    threads = {commit.lease.thread_key for commit in commits if commit.messages or commit.ends}
    notified = {
        commit.lease.parent_key for commit in commits if commit.notifies_parent and commit.lease.parent_key is not None
    }
    for commit in commits:
        if commit.commit.withdrawn and commit.lease.parent_key is not None:
            notified.update(await ancestor_run_keys(tx, commit.lease.run_key))
    dependencies = await dependencies_of_waits(
        tx, [(commit.lease.space_id, commit.waits_on) for commit in commits if commit.waits_on]
    )
    others = notified | dependencies
    numbered = any(commit.commit.number is not None for commit in commits)
    runs = others | {commit.lease.run_key for commit in commits} if others or numbered else others
    if threads or runs:
        await tx.lock(threads=threads, runs=runs)
    return dependencies


async def _refusal_error(tx: Transaction, commit: PreparedCommit) -> HoldfastError:
    """Return the reason why the fence rejected a commit."""
    lease = commit.lease
    head = await tx.one("head", run_key=lease.run_key)
    if head is not None and head["lease_number"] == lease.number:
        return InboxNotEmpty(f"run `{lease.run_id}` has unread items in its inbox", run_id=lease.run_id)
    return _lease_lost_error(lease)


def _lease_lost_error(lease: Lease) -> LeaseLost:
    return LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id, number=lease.number)


async def _add_messages(
    tx: Transaction, accepted: Sequence[PreparedCommit]
) -> tuple[dict[int, list[int]], dict[int, list[MessageId]]]:
    """Store messages with new sequences; return the sequences and message ids by run."""
    with_messages = [commit for commit in accepted if commit.messages]
    if not with_messages:
        return {}, {}
    tips = [(ChainTip(commit.lease.thread_key, commit.lease.run_key), commit.messages) for commit in with_messages]
    await check_new_ids(tx, tips)
    counts: dict[int, int] = {}
    for commit in with_messages:
        counts[commit.lease.thread_key] = counts.get(commit.lease.thread_key, 0) + len(commit.messages)
    reserved = await tx.many("take_sequences", [(count, key) for key, count in counts.items()])
    next_sequences = {row["thread_key"]: row["next_sequence"] - counts[row["thread_key"]] for row in reserved}
    sequences: dict[int, list[int]] = {}
    ids: dict[int, list[MessageId]] = {}
    rows: list[tuple[Any, ...]] = []
    for commit in with_messages:
        lease = commit.lease
        first = next_sequences[lease.thread_key]
        next_sequences[lease.thread_key] = first + len(commit.messages)
        sequences[lease.run_key] = list(range(first, first + len(commit.messages)))
        own = [
            message_values(tx, message, thread_key=lease.thread_key, run_key=lease.run_key, sequence=sequence)
            for sequence, message in zip(sequences[lease.run_key], commit.messages, strict=True)
        ]
        ids[lease.run_key] = [values[2] for values in own]
        rows += own
    await tx.many("add_messages", rows)
    return sequences, ids


async def _add_values(tx: Transaction, accepted: Sequence[PreparedCommit], sequences: dict[int, list[int]]) -> None:
    """Store values as of the last message that their run has now."""
    with_values = [commit for commit in accepted if commit.values]
    if not with_values:
        return
    without_messages = [(commit.lease.run_key,) for commit in with_values if not commit.messages]
    last = {row["run_key"]: row["last_sequence"] for row in await tx.many("last_sequences", without_messages)}
    rows = []
    for commit in with_values:
        own = sequences.get(commit.lease.run_key)
        at = last[commit.lease.run_key] if own is None else own[-1]
        rows += [(commit.lease.run_key, name, at, value) for name, value in commit.values]
    await tx.many("add_values", rows)
    uses = [(each.lease.space_key, *use, each.lease.run_key) for each in with_values for use in each.uses]
    await tx.many("add_run_uses", uses)


async def _add_usage(tx: Transaction, accepted: Sequence[PreparedCommit]) -> None:
    """Add usage to the runs and their budgets; for a run that ends, `_finish_runs` adds it to the run."""
    rows = [
        (*_usage_values(commit), commit.lease.run_key)
        for commit in accepted
        if not commit.ends and (commit.commit.usage is not None or commit.commit.iterations)
    ]
    await tx.many("add_usage", rows)
    await add_spending(tx, [(commit.lease, commit.commit.usage) for commit in accepted])
    await record_usage(tx, [(commit.lease, commit.commit.usage, commit.commit.steps) for commit in accepted])
    await check_budgets(tx, accepted)


def _usage_values(commit: PreparedCommit) -> tuple[int | None, ...]:
    return (*usage_values(commit.commit.usage), commit.commit.iterations)


async def _add_contexts(tx: Transaction, accepted: Sequence[PreparedCommit]) -> None:
    with_contexts = [commit for commit in accepted if commit.contexts]
    if not with_contexts:
        return
    snapshots = {(each.lease.run_key, step): snapshot for each in with_contexts for step, snapshot in each.contexts}
    texts = {(each.lease.space_key, digest): text for each in with_contexts for digest, text in each.texts}
    await tx.many("add_contexts", [(*name, snapshot) for name, snapshot in snapshots.items()])
    await tx.many("add_texts", [(*name, text) for name, text in sorted(texts.items())])


async def _add_rare_parts(tx: Transaction, prepared: Sequence[PreparedCommit]) -> None:
    if not prepared:
        return
    interrupts, withdrawn, timers, cancelled = [], [], [], []
    measured = any(item.commit.timers or item.commit.interrupts for item in prepared)
    offset = await store_time(tx) - tx.now if measured else 0
    for item in prepared:
        commit, lease = item.commit, item.lease
        interrupts += [_interrupt_values(tx, new, lease, offset) for new in commit.interrupts]
        withdrawn += [(lease.run_key, interrupt_id) for interrupt_id in commit.withdrawn]
        timers += [
            timer_values(tx, new, space=lease.space_key, run_key=lease.run_key, clock_offset=offset)
            for new in commit.timers
        ]
        cancelled += [(lease.run_key, timer_id) for timer_id in commit.cancelled_timers]
        for artifact in commit.artifacts:
            await add_artifact(tx, lease.space_key, lease.run_key, artifact)
        for memory in commit.memories:
            await put_run_memory(tx, lease.space_key, lease.space_id, memory)
        for run in commit.follow_ups:
            await create_run(tx, CreateRunRequest(lease.space_id, run))
        for child in commit.children:
            await create_run(tx, CreateRunRequest(lease.space_id, child))
        if commit.timers:
            tx.hints.add(timers=True)
    await tx.many("add_interrupts", interrupts)
    children = {item.lease.run_key for item in prepared if item.lease.parent_key is not None}
    for row in await tx.many("withdraw_interrupts", withdrawn):
        if row["run_key"] in children:
            await notify_of_closed_interrupt(tx, await ancestor_run_keys(tx, row["run_key"]), row["id"])
    await tx.many("add_timers", timers)
    await tx.many("cancel_timers", cancelled)


async def _move_runs(tx: Transaction, accepted: Sequence[PreparedCommit], *, locked: frozenset[int]) -> None:
    moving = [(commit, commit.move) for commit in accepted if commit.move is not None]
    if not moving:
        return
    heads, offset = [], 0
    pausing = [commit.lease.run_key for commit, move in moving if _pauses_deadline(commit, move)]
    if pausing or any(move.wait_until is not None for _, move in moving):
        offset = await store_time(tx) - tx.now
    for commit, move in moving:
        wait_until = None if move.wait_until is None else millis(move.wait_until) + offset
        heads.append((move.to.value, move.reason, wait_until, tx.now, commit.lease.run_key))
        if move.waits_on:
            await add_waits(tx, commit.lease, move.waits_on, locked=locked)
    await tx.many("move_heads", heads)
    await tx.many("pause_deadlines", [(tx.now + offset, run_key) for run_key in pausing])
    finished = await _finish_runs(tx, [(commit, move) for commit, move in moving if move.to.terminal])
    notifications = [
        notification_row(tx, commit.lease.space_key, commit.lease.run, move.to, move.reason, _own_interrupts(move))
        for commit, move in moving
        if _notifies_people(move)
    ]
    await tx.many("add_to_outbox", notifications)
    queued = [move for _, move in moving if move.to is RunStatus.QUEUED]
    tx.hints.add(
        queue=any(move.wait_until is None for move in queued) or any(each.lease.space_limited for each, _ in moving),
        delayed=any(move.wait_until is not None for move in queued),
        news=bool(notifications),
    )
    await queue_dependent_runs(tx, _keys_with("followers", finished))
    await _notify_parents_and_subscribers(tx, moving, subscribed=_keys_with("subscribers", finished))


async def _finish_runs(tx: Transaction, ending: Sequence[tuple[PreparedCommit, Move]]) -> Sequence[Row]:
    """Write outcome and last usage of ended runs, and close what is open; return the runs that had open parts."""
    rows = await tx.many(
        "finish_runs",
        [
            (
                dump_optional_json(move.output),
                dump_optional_json(move.error),
                tx.now,
                *_usage_values(commit),
                commit.lease.run_key,
            )
            for commit, move in ending
        ],
    )
    finished = [row for row in rows if any(list(row)[1:])]  # the columns after the key are flags for open parts
    if finished:
        await tx.many("stop_timers", [(key,) for key in _keys_with("timers", finished)])
        await tx.many("close_open_interrupts", [(key,) for key in _keys_with("questions", finished)])
        await tx.many("cut_off_started_steps", [(tx.now, key) for key in _keys_with("steps", finished)])
    return finished


def _keys_with(flag: str, finished: Sequence[Row]) -> list[int]:
    return [row["run_key"] for row in finished if row[flag]]


async def _notify_parents_and_subscribers(
    tx: Transaction, moving: Sequence[tuple[PreparedCommit, Move]], *, subscribed: Sequence[int]
) -> None:
    """Notify parents and subscribers of ended runs, and parents of interrupts."""
    ended = {
        commit.lease.run_key: msgspec.structs.replace(
            commit.lease.run, status=move.to, output=move.output, error=move.error
        )
        for commit, move in moving
        if move.to.terminal
    }
    for commit, move in moving:
        parent_key = commit.lease.parent_key
        if parent_key is not None and move.asks:
            await notify_parent_of_interrupts(tx, parent_key, commit.lease.run_id, move.asks)
        if parent_key is not None and move.to.terminal:
            await notify_parent(tx, parent_key, ended[commit.lease.run_key])
    await notify_subscribers(tx, {key: ended[key] for key in subscribed})


def _pauses_deadline(commit: PreparedCommit, move: Move) -> bool:
    """Return whether a run with a deadline starts to wait for a person."""
    waits = move.to is RunStatus.WAITING and move.reason == WaitsFor.PERSON
    return waits and commit.lease.run.limits.max_duration_seconds is not None


def _notifies_people(move: Move) -> bool:
    """Return whether a move creates a notification. An interrupt does so in its own run only, not in its ancestors."""
    if move.to is not RunStatus.WAITING:
        return move.to in NOTIFICATION_KINDS
    only_of_subagents = bool(move.asks) and all("subagentRunId" in interrupt for interrupt in move.asks)
    return move.reason == WaitsFor.PERSON and not only_of_subagents


def _own_interrupts(move: Move) -> list[InterruptId]:
    return [interrupt["id"] for interrupt in move.asks if "subagentRunId" not in interrupt]


def _interrupt_values(tx: Transaction, new: NewInterrupt, lease: Lease, clock_offset: int) -> tuple[Any, ...]:
    expires_at = tx.now + DEFAULT_INTERRUPT_TIMEOUT_MS if new.expires_at is None else millis(new.expires_at)
    return (
        lease.space_key,
        lease.run_key,
        new.id or InterruptId(tx.new_id("int")),
        new.kind.value,
        new.message,
        new.tool_call_id,
        dump_optional_json(new.arguments),
        new.digest,
        dump_optional_json(new.response_schema),
        dump_optional_json(new.default),
        dump_json(new.metadata),
        expires_at + clock_offset,
        tx.now,
    )
