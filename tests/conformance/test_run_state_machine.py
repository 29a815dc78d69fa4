"""Anything, in any order, from several workers: the log stays as the model says, and nothing sleeps for ever.

On a failure Hypothesis prints the shortest sequence of rules that leads to it.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from msgspec import structs

from holdfast.domain.busy import OnBusy
from holdfast.domain.content import Json
from holdfast.domain.errors import (
    AlreadyAnswered,
    Conflict,
    IdempotencyMismatch,
    IdTaken,
    InboxNotEmpty,
    LeaseLost,
    NotFound,
)
from holdfast.domain.ids import OwnerId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Answer, InterruptStatus
from holdfast.domain.new_run import Base, NewRun
from holdfast.domain.run import Priority, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import TimerState
from holdfast.testing.postgres import PostgresServer
from tests.conformance.log_invariants import SPACE
from tests.conformance.log_machine import LogMachine
from tests.conformance.log_model import DEEPEST, ModelThread, Start
from tests.conformance.log_worker import Turn, plan

OWNERS: Final = tuple(OwnerId(name) for name in ("first", "second", "third"))
MILLISECOND: Final = timedelta(milliseconds=1)
EVERY: Final = settings(
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

_values = st.dictionaries(st.sampled_from(["state", "plan"]), st.integers(0, 9), max_size=2)
_delays = st.none() | st.sampled_from([1, 2_000, 90_000])
_stops = st.sampled_from([RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.QUEUED, RunStatus.FAILED])
_turns = st.builds(
    Turn,
    speaks=st.booleans(),
    calls=st.integers(0, 2),
    answers=st.integers(0, 2),
    streams=st.booleans(),
    step=st.sampled_from(["none", "start", "start effectful", "settle"]),
    values=_values,
    reads=st.sampled_from([9, 1, 0]),
    timer=_delays,
    questions=st.integers(0, 2),
    to=st.none(),
    delay=_delays,
)
_last_turns = st.builds(lambda turn, to: replace(turn, to=to), _turns, _stops)


class RunLog(LogMachine):
    """The rules."""

    @rule(data=st.data(), wish=st.sampled_from(OnBusy), wait=_delays, given=_values, priority=st.sampled_from(Priority))
    def create(
        self, data: st.DataObject, wish: OnBusy, wait: int | None, given: dict[str, Json], priority: Priority
    ) -> None:
        """Say something on a thread, wherever it stands."""
        thread = self._pick(data, self._model.open_threads())
        new = NewRun(thread=thread.id, on_busy=wish, wait_until=self._in(wait), values=given, priority=priority)
        self._create(data, thread, new, lambda: self._model.place(thread, wish))

    @precondition(lambda self: self._model.runs)
    @rule(data=st.data(), given=_values)
    def create_on_base(self, data: st.DataObject, given: dict[str, Json]) -> None:
        """Continue from any run, or from within it, or from nothing."""
        base = self._pick(data, self._model.runs)
        thread = base.thread
        if thread not in self._model.open_threads() or data.draw(st.integers(0, 5)) == 0:
            thread = self._pick(data, self._model.open_threads())
            self._create(data, thread, NewRun(thread=thread.id, base=None, values=given), lambda: Start(None))
            return
        own = [] if base.deleted else self._run(self._store.messages.of_run(SPACE, base.id))
        sequences = [message.sequence for message in own if message.sequence is not None]
        cut = data.draw(st.none() | st.integers(1, len(sequences))) if sequences else None
        named = Base(run_id=base.id, sequence=None if cut is None else sequences[cut - 1])
        self._create(
            data, thread, NewRun(thread=thread.id, base=named, values=given), lambda: self._model.named_base(base, cut)
        )

    @precondition(lambda self: any(run.depth < DEEPEST for run in self._model.runs))
    @rule(data=st.data())
    def create_child(self, data: st.DataObject) -> None:
        """Spawn a sub-agent, on a new thread or on one that an earlier one had."""
        live = [run for run in self._model.existing() if run.live and run.depth < DEEPEST]
        parent = self._pick(data, live or [run for run in self._model.runs if run.depth < DEEPEST])
        had = [thread for thread in self._model.open_threads() if thread.made_for_run and thread is not parent.thread]
        if data.draw(st.booleans()) and had:
            thread = self._pick(data, had)
            new = NewRun(thread=thread.id, parent_run_id=parent.id)
            self._create(data, thread, new, lambda: self._model.place(thread, OnBusy.ENQUEUE), parent)
        else:
            fresh = ModelThread(ThreadId(self._model.name("thread")), made_for_run=True)
            new = NewRun(thread=NewThread(id=fresh.id), parent_run_id=parent.id)
            self._create(data, fresh, new, lambda: Start(None), parent)

    @precondition(lambda self: self._made)
    @rule(data=st.data())
    def create_again(self, data: st.DataObject) -> None:
        """The same request makes no second run; its id is never used again."""
        run = self._pick(data, list(self._made))
        new = self._made[run]
        self._refused(IdempotencyMismatch, self._store.runs.create(SPACE, structs.replace(new, tags=["other"])))
        if run.thread in self._model.open_threads():
            thread = run.thread.id
            self._refused(IdTaken, self._store.runs.create(SPACE, NewRun(thread=thread, id=run.id, base=None)))
        if run.deleted:
            self._refused(Conflict, self._store.runs.create(SPACE, new))
        else:
            created = self._run(self._store.runs.create(SPACE, new))
            assert (created.run.id, created.replayed) == (run.id, True)

    @rule(owner=st.sampled_from(OWNERS), limit=st.integers(1, 3), seconds=st.sampled_from([10, 60]))
    def claim(self, owner: OwnerId, limit: int, seconds: int) -> None:
        now = self._clock.now()
        ready = {run.id: run for run in self._model.runs if run.ready(now)}
        leases = self._run(self._store.leases.claim(owner, lease=timedelta(seconds=seconds), limit=limit))
        assert len({lease.run_id for lease in leases}) == min(limit, len(ready))
        for lease in leases:
            run = ready[lease.run_id]
            self._model.claimed(run, owner, expires_at=now + seconds * 1000)
            assert (lease.number, lease.owner) == (run.lease_number, owner)
            self._leases.append((run, lease))

    @precondition(lambda self: self._held())
    @rule(data=st.data(), turn=_turns)
    def work(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._pick(data, self._held()), turn)

    @precondition(lambda self: self._held())
    @rule(data=st.data(), turn=_last_turns)
    def stop(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._pick(data, self._held()), turn)

    @precondition(lambda self: len(self._held()) > 1)
    @rule(data=st.data(), turns=st.lists(_turns | _last_turns, min_size=2, max_size=3))
    def work_together(self, data: st.DataObject, turns: list[Turn]) -> None:
        """Commits that come at once are written at once; a run may stop just before its child tells it of its end."""
        held = [self._held()[index] for index in data.draw(st.permutations(range(len(self._held()))))]
        planned = [self._plan(run, lease, turn) for (run, lease), turn in zip(held, turns, strict=False)]
        planned.sort(key=lambda each: each.run.depth)
        refused = {each.run for each in planned if each.refused}
        outcomes = self._at_once(*[self._store.journal.commit(each.commit) for each in reversed(planned)])[::-1]
        for each, outcome in zip(planned, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, InboxNotEmpty)
                children = [other.run.parent for other in planned if other is not each]
                assert each.run in refused or each.run in children
            else:
                assert each.run not in refused
                each.apply(self._model)

    @precondition(lambda self: self._held())
    @rule(data=st.data(), turn=_last_turns, comes_first=st.booleans())
    def stop_while_something_comes_in(self, data: st.DataObject, turn: Turn, comes_first: bool) -> None:
        """Either the run reads it before it stops, or it is woken, or it has ended: nothing lies there unread."""
        run, lease = self._pick(data, self._held())
        planned = self._plan(run, lease, replace(turn, reads=9))
        what = self._model.name("item")
        writers: list[Awaitable[Any]] = [self._store.journal.commit(planned.commit), self._put_item(run, what)]
        outcomes = self._at_once(*(reversed(writers) if comes_first else writers))
        committed, number = reversed(outcomes) if comes_first else outcomes
        if isinstance(committed, BaseException):
            assert isinstance(committed, InboxNotEmpty)
            assert number == self._model.put(run, InboxKind.MESSAGE, what)
            return
        planned.apply(self._model)
        if run.live:
            assert number == self._model.put(run, InboxKind.MESSAGE, what)
        else:
            assert isinstance(number, Conflict)

    @precondition(lambda self: self._lost())
    @rule(data=st.data(), turn=_turns | _last_turns)
    def come_too_late(self, data: st.DataObject, turn: Turn) -> None:
        """A worker whose lease is lost changes nothing, whatever it tries."""
        run, lease = self._pick(data, self._lost())
        late = plan(self._model, run, lease, replace(turn, reads=0), self._clock.now())
        self._refused(LeaseLost, self._store.journal.commit(late.commit))
        self._refused(LeaseLost, self._store.journal.inbox(lease))
        assert self._run(self._store.leases.renew(lease.owner, [lease], lease=MILLISECOND)) == []
        self._model.touched.add(run)

    @precondition(lambda self: self._model.runs)
    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        run = self._pick(data, self._model.runs)
        what = self._model.name("item")
        if run.deleted:
            self._refused(NotFound, self._put_item(run, what))
        else:
            self._expect(lambda: self._model.put(run, InboxKind.MESSAGE, what), self._put_item(run, what))

    @precondition(lambda self: any(run.asked for run in self._model.runs))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        asked = {interrupt: run for run in self._model.runs for interrupt in run.asked}
        interrupt = data.draw(st.sampled_from(list(asked)))
        run = asked[interrupt]
        answer = self._store.interrupts.answer(SPACE, interrupt, Answer(response="yes"))
        if run.deleted:
            self._refused(NotFound, answer)
        elif run.asked[interrupt] is not InterruptStatus.OPEN:
            self._refused(AlreadyAnswered, answer)
        else:
            self._run(answer)
            run.asked[interrupt] = InterruptStatus.ANSWERED
            self._model.put(run, InboxKind.ANSWER, interrupt)

    @rule(owner=st.sampled_from(OWNERS), seconds=st.sampled_from([10, 60]))
    def renew(self, owner: OwnerId, seconds: int) -> None:
        """Of all leases an owner ever had, those that hold are extended."""
        had = [(run, lease) for run, lease in self._leases if lease.owner == owner]
        held = [(run, lease) for run, lease in self._held() if lease.owner == owner]
        leases = [lease for _, lease in had]
        renewed = self._run(self._store.leases.renew(owner, leases, lease=timedelta(seconds=seconds)))
        assert [(lease.run_id, lease.number) for lease in renewed] == [(run.id, run.lease_number) for run, _ in held]
        for run, _ in held:
            run.expires_at = self._clock.now() + seconds * 1000

    @rule(seconds=st.sampled_from([0.001, 1, 9.999, 10, 60, 300]))
    def tick(self, seconds: float) -> None:
        self._clock.tick(timedelta(seconds=seconds))

    @rule(cap=st.sampled_from([5, 2, 1]))
    def expire(self, cap: int) -> None:
        expired = self._run(self._store.leases.expire(cap=cap))
        assert expired == [run.id for run in self._model.expire(self._clock.now(), cap=cap)]

    @precondition(lambda self: self._leases)
    @rule(data=st.data(), delay=_delays)
    def release(self, data: st.DataObject, delay: int | None) -> None:
        """Give back what is held, let go what was ended, and nothing that is lost."""
        useful = [(run, lease) for run, lease in self._leases if run.owner is not None]
        run, lease = self._pick(data, self._leases if data.draw(st.booleans()) or not useful else useful)
        until = None if delay is None else self._clock.now() + delay
        release = self._store.leases.release(lease, delay=(delay or 0) * MILLISECOND)
        self._expect(lambda: self._model.release(run, lease.number, wait_until=until), release)

    @precondition(lambda self: self._model.existing())
    @rule(data=st.data(), to=st.sampled_from([RunStatus.CANCELLED, RunStatus.FAILED]))
    def end(self, data: st.DataObject, to: RunStatus) -> None:
        run = self._pick(data, self._model.existing())
        self._expect(lambda: [ended.id for ended in self._model.end(run, to)], self._end(run, to))

    @precondition(lambda self: any(not run.live for run in self._model.runs))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        run = self._pick(data, [run for run in self._model.runs if not run.live])
        self._expect(lambda: self._model.delete(run), self._store.runs.delete(SPACE, run.id))

    @precondition(lambda self: any(run.timers for run in self._model.existing()))
    @rule(owner=st.sampled_from(OWNERS))
    def fire(self, owner: OwnerId) -> None:
        """Put what is due into the inboxes."""
        due = {
            name: run
            for run in self._model.existing()
            for name, timer in run.timers.items()
            if timer.state is TimerState.SCHEDULED and timer.due_at <= self._clock.now()
        }
        claims = self._run(self._store.timers.due(owner, lease=timedelta(seconds=1)))
        assert {claim.timer.id for claim in claims} == due.keys()
        for claim in claims:
            run = due[claim.timer.id]
            run.timers[claim.timer.id].state = TimerState.FIRED
            put = self._store.inbox.put(SPACE, run.id, kind=InboxKind.TIMER, data=claim.timer.id, fires=claim)
            assert self._run(put) == self._model.put(run, InboxKind.TIMER, claim.timer.id)

    @rule()
    def restart(self) -> None:
        """On SQLite every lease is dead then; on PostgreSQL others may live on."""
        self._run(self._open.aclose())
        self._store, self._probe = self._run(self._connect())
        if isinstance(self._where, Path):
            self._model.expire(self._clock.now(), cap=5, at_once=True)


def test_sqlite_keeps_the_log_whatever_happens_in_whatever_order(tmp_path: Path) -> None:
    _run_on_sqlite(tmp_path, settings(EVERY, max_examples=60, stateful_step_count=40))


def test_postgres_keeps_the_log_whatever_happens_in_whatever_order(postgres: PostgresServer) -> None:
    _run_on_postgres(postgres, settings(EVERY, max_examples=15, stateful_step_count=30))


@pytest.mark.slow
def test_sqlite_keeps_the_log_for_long(tmp_path: Path) -> None:
    _run_on_sqlite(tmp_path, settings(EVERY, max_examples=1500, stateful_step_count=80))


@pytest.mark.slow
def test_postgres_keeps_the_log_for_long(postgres: PostgresServer) -> None:
    _run_on_postgres(postgres, settings(EVERY, max_examples=300, stateful_step_count=80))


def _run_on_sqlite(folder: Path, wanted: settings) -> None:
    """Give each example a file of its own."""
    numbers = count(1)
    with _runner() as runner:

        class RunLogOnSqlite(RunLog):
            def __init__(self) -> None:
                super().__init__(runner, folder / f"{next(numbers)}.db")

        run_state_machine_as_test(RunLogOnSqlite, settings=wanted)


def _run_on_postgres(server: PostgresServer, wanted: settings) -> None:
    """Let the examples follow each other in one database: each begins by emptying it."""
    name = f"state_machine_{wanted.max_examples}"
    with _runner() as runner:
        where = runner.run(server.create_database(name))

        class RunLogOnPostgres(RunLog):
            def __init__(self) -> None:
                super().__init__(runner, where)

        run_state_machine_as_test(RunLogOnPostgres, settings=wanted)
        runner.run(server.drop_database(name))


def _runner() -> asyncio.Runner:
    """Return a runner that leaves the loop of the other tests alone."""
    return asyncio.Runner(loop_factory=asyncio.new_event_loop)
