"""State machine: any operations in any order from several workers leave the log as the model says, and no run stuck.

On a failure Hypothesis prints the shortest sequence of rules that leads to it.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from holdfast.domain.commit import Committed
from holdfast.domain.content import Json
from holdfast.domain.errors import (
    AlreadyAnswered,
    Conflict,
    LeaseLost,
    NotFound,
)
from holdfast.domain.ids import OwnerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptResponse, InterruptStatus
from holdfast.domain.limits import MAX_ATTEMPTS, Limits
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Priority, RunStatus
from holdfast.domain.timer import TimerState
from tests.conformance.log_invariants import SPACE
from tests.conformance.log_machine import OWNERS, LogMachine
from tests.conformance.log_model import DEEPEST, Start
from tests.conformance.log_worker import MISTAKES, STEPS, Turn, plan
from tests.conformance.machine_database import MachineDatabase, PostgresMachineDatabase, SqliteMachineDatabase
from tests.support.postgres import PostgresServer

MILLISECOND: Final = timedelta(milliseconds=1)
EVERY: Final = settings(
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

_values = st.dictionaries(st.sampled_from(["state", "plan"]), st.integers(0, 9), max_size=2)
_delays = st.sampled_from([None, None, None, 1, 2_000, 90_000])
_reads = st.sampled_from([9, 9, 1, 0])
_steps = st.sampled_from(STEPS)
_mistakes = st.sampled_from([None, None, None, *MISTAKES])
_budgets = st.sampled_from([None, 2, 5])
_limits = st.builds(Limits, token_budget=_budgets)
_tokens = st.integers(0, 3)
_spawns = st.lists(_budgets, max_size=2).map(tuple) | st.just(())
_targets = st.lists(st.integers(0, 30), max_size=2).map(tuple)
_turns = {
    "speaks": st.builds(
        Turn,
        speaks=st.just(True),
        calls=st.integers(0, 2),
        values=_values,
        step=_steps,
        tokens=_tokens,
        spawns=_spawns,
        mistake=_mistakes,
    ),
    "settles": st.builds(
        Turn, answers=st.integers(1, 2), step=st.just("settle"), tokens=_tokens, speaks=st.booleans(), reads=_reads
    ),
    "notes": st.builds(Turn, streams=st.booleans(), values=_values, step=_steps, tokens=_tokens, timer=_delays),
    "waits": st.builds(
        Turn,
        to=st.just(RunStatus.WAITING),
        questions=st.integers(0, 2),
        targets=_targets,
        spawns=_spawns,
        step=_steps,
        reads=_reads,
        timer=_delays,
    ),
    "stops": st.builds(
        Turn,
        speaks=st.booleans(),
        calls=st.integers(0, 2),
        step=_steps,
        values=_values,
        reads=_reads,
        timer=_delays,
        spawns=_spawns,
        to=st.sampled_from([RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.QUEUED]),
        delay=_delays,
    ),
}
_any_turn = st.one_of(*_turns.values())


class RunLog(LogMachine):
    """The rules of the state machine."""

    @initialize(data=st.data(), runs=st.integers(1, 4), claims=st.integers(0, 2), children=st.integers(0, 2))
    def begin(self, data: st.DataObject, runs: int, claims: int, children: int) -> None:
        """Start with some runs, whichever rules Hypothesis leaves out."""
        for _ in range(runs):
            self._create_on(data, self._pick(data, self._model.threads), limits=data.draw(_limits))
        for _ in range(claims):
            self._claim(OWNERS[0], limit=1, seconds=60)
        for _ in range(children):
            self._spawn(data, self._pick(data, self._model.runs))

    @rule(
        data=st.data(),
        wish=st.sampled_from(OnBusy),
        wait=_delays,
        given=_values,
        priority=st.sampled_from(Priority),
        limits=_limits,
    )
    def create(
        self,
        data: st.DataObject,
        wish: OnBusy,
        wait: int | None,
        given: dict[str, Json],
        priority: Priority,
        limits: Limits,
    ) -> None:
        """Create a run on a thread in any state; the same request again creates no second run."""
        thread = self._pick(data, self._model.open_threads())
        until = self._in(wait)
        self._create_on(data, thread, on_busy=wish, wait_until=until, values=given, priority=priority, limits=limits)
        if self._made and data.draw(st.integers(0, 3)) == 0:
            self._create_again(self._pick(data, list(self._made)))

    @rule(data=st.data(), wishes=st.permutations(list(OnBusy)))
    def create_together(self, data: st.DataObject, wishes: list[OnBusy]) -> None:
        """Create runs on different threads concurrently, so that they may be created in one batch."""
        births = []
        for thread, wish in zip(self._model.threads[:2], wishes, strict=False):
            place = partial(self._model.place, thread, wish)
            births.append(self._expecting(data, thread, NewRun(thread=thread.id, on_busy=wish), place, keyed=False))
        # Runs on idle threads come first in any case, so that claims find all runs in the same order.
        births.sort(key=lambda birth: self._model.is_busy(birth.thread))
        outcomes = self._at_once(*[self._store.runs.create(SPACE, birth.new) for birth in births])
        for birth, outcome in zip(births, outcomes, strict=True):
            if isinstance(birth.start, Start):
                assert isinstance(outcome, CreatedRun)
                self._born(birth, birth.start)
            else:
                assert type(outcome) is birth.start

    @precondition(lambda self: self._model.existing())
    @rule(data=st.data(), given=_values)
    def create_on_base(self, data: st.DataObject, given: dict[str, Json]) -> None:
        """Create a run on any base, at any sequence of it, or without a base."""
        base = self._pick(data, self._model.existing() if data.draw(st.integers(0, 7)) else self._model.runs)
        thread = base.thread
        if thread not in self._model.open_threads() or data.draw(st.integers(0, 5)) == 0:
            thread = self._pick(data, self._model.open_threads())
            self._create(data, thread, NewRun(thread=thread.id, base=None, values=given), lambda: Start(None))
            return
        own = [] if base.deleted else self._run(self._store.messages.of_run(SPACE, base.id))
        sequences = [message.sequence for message in own if message.sequence is not None]
        cut = data.draw(st.integers(0, len(sequences))) or None
        named = RunBase(run_id=base.id, sequence=None if cut is None else sequences[cut - 1])
        self._create(
            data, thread, NewRun(thread=thread.id, base=named, values=given), lambda: self._model.named_base(base, cut)
        )

    @precondition(lambda self: any(run.live and run.depth < DEEPEST for run in self._model.runs))
    @rule(data=st.data())
    def create_child(self, data: st.DataObject) -> None:
        """Spawn a child of any run: an ended run cannot spawn."""
        live = [run for run in self._model.runs if run.live and run.depth < DEEPEST]
        unlikely = [run for run in self._model.existing() if run.depth < DEEPEST]
        self._spawn(data, self._pick(data, unlikely if data.draw(st.integers(0, 9)) == 0 else live))

    @precondition(lambda self: any(run.status is RunStatus.QUEUED for run in self._model.runs))
    @rule(owner=st.sampled_from(OWNERS), limit=st.integers(1, 3), seconds=st.sampled_from([10, 60]))
    def claim(self, owner: OwnerId, limit: int, seconds: int) -> None:
        self._claim(owner, limit=limit, seconds=seconds)

    @precondition(lambda self: self._has_work())
    @rule(data=st.data(), turn=_turns["speaks"])
    def speak(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._worker(data), turn)

    @precondition(lambda self: self._has_work())
    @rule(data=st.data(), turn=_turns["settles"])
    def settle(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._worker(data), turn)

    @precondition(lambda self: self._has_work())
    @rule(data=st.data(), turn=_turns["notes"])
    def note(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._worker(data), turn)

    @precondition(lambda self: self._has_work())
    @rule(data=st.data(), turn=_turns["waits"])
    def wait(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._worker(data), turn)

    @precondition(lambda self: self._has_work())
    @rule(data=st.data(), turn=_turns["stops"])
    def stop(self, data: st.DataObject, turn: Turn) -> None:
        self._commit(*self._worker(data), turn)

    @precondition(lambda self: self._has_work(2))
    @rule(data=st.data(), turns=st.lists(_any_turn, min_size=2, max_size=3))
    def work_together(self, data: st.DataObject, turns: list[Turn]) -> None:
        """Concurrent commits may be written in one batch, and each fails alone.

        Parents go first: a parent that stops just before its child notifies it of its end is woken.
        """
        self._claim(OWNERS[0], limit=3, seconds=60)
        held = [self._held()[index] for index in data.draw(st.permutations(range(len(self._held()))))]
        planned = [self._plan(run, lease, turn) for (run, lease), turn in zip(held, turns, strict=False)]
        planned.sort(key=lambda each: each.run.depth)
        outcomes = self._at_once(*[self._store.journal.commit(each.commit) for each in planned])
        for each, outcome in zip(planned, outcomes, strict=True):
            error = each.error  # now: one before it may have used up a budget, or begun to wait
            assert type(outcome) is (error or Committed)
            self._model.touched.add(each.run)
            if error is None:
                self._apply(each)

    @precondition(lambda self: self._has_work())
    @rule(data=st.data(), turn=_turns["waits"] | _turns["stops"], comes_first=st.booleans())
    def stop_while_something_comes_in(self, data: st.DataObject, turn: Turn, comes_first: bool) -> None:
        """Put an item: the run must read it before it stops, or is woken, or has ended."""
        run, lease = self._worker(data)
        planned = self._plan(run, lease, replace(turn, reads=9))
        what = self._model.name("item")
        commit, put = self._store.journal.commit(planned.commit), self._put_item(run, what)
        if comes_first:
            number, committed = self._in_order(put, commit)
            assert number == self._model.put(run, InboxKind.MESSAGE, what)
            assert type(committed) is (planned.error or Committed)
            if planned.error is None:
                self._apply(planned)
        else:
            committed, number = self._in_order(commit, put)
            assert type(committed) is (planned.error or Committed)
            if planned.error is None:
                self._apply(planned)
            assert isinstance(number, int if run.live else Conflict)
            assert not run.live or number == self._model.put(run, InboxKind.MESSAGE, what)

    @precondition(lambda self: self._lost())
    @rule(data=st.data(), turn=_any_turn)
    def come_too_late(self, data: st.DataObject, turn: Turn) -> None:
        """Commit with a lost lease, which changes nothing."""
        run, lease = self._pick(data, self._lost())
        late = plan(self._model, run, lease, replace(turn, reads=0), self._clock.now())
        self._refused(LeaseLost, self._store.journal.commit(late.commit))
        self._refused(LeaseLost, self._store.journal.inbox(lease))
        self._refused(LeaseLost, self._store.journal.open(lease))
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
        answer = self._store.interrupts.respond(SPACE, interrupt, InterruptResponse(response="yes"))
        if run.deleted:
            self._refused(NotFound, answer)
        elif run.asked[interrupt] is not InterruptStatus.OPEN:
            self._refused(AlreadyAnswered, answer)
        else:
            self._run(answer)
            self._model.answer(run, interrupt)

    @precondition(lambda self: self._leases)
    @rule(owner=st.sampled_from(OWNERS), seconds=st.sampled_from([10, 60]))
    def renew(self, owner: OwnerId, seconds: int) -> None:
        """Renew all leases an owner ever had: those still held are extended."""
        had = [(run, lease) for run, lease in self._leases if lease.owner == owner]
        held = [(run, lease) for run, lease in self._held() if lease.owner == owner]
        leases = [lease for _, lease in had]
        renewed = self._run(self._store.leases.renew(owner, leases, lease=timedelta(seconds=seconds)))
        assert [(lease.run_id, lease.number) for lease in renewed] == [(run.id, run.lease_number) for run, _ in held]
        for run, _ in held:
            run.expires_at = self._clock.now() + seconds * 1000

    @precondition(lambda self: self._waits_for_time())
    @rule(seconds=st.sampled_from([0.001, 1, 9.999, 10, 60]))
    def tick(self, seconds: float) -> None:
        self._clock.tick(timedelta(seconds=seconds))

    @precondition(lambda self: any(run.owner for run in self._model.runs))
    @rule(cap=st.sampled_from([5, 2, 1]), seconds=st.sampled_from([60, 10, 0]))
    def expire(self, cap: int, seconds: int) -> None:
        self._clock.tick(timedelta(seconds=seconds))
        expired = self._run(self._store.leases.expire(cap=cap))
        assert expired == [run.id for run in self._model.expire(self._clock.now(), cap=cap)]

    @precondition(lambda self: self._leases)
    @rule(data=st.data(), delay=_delays)
    def release(self, data: st.DataObject, delay: int | None) -> None:
        """Release any lease: a held one, that of an ended run, or a lost one, which is refused."""
        useful = [(run, lease) for run, lease in self._leases if run.owner is not None]
        run, lease = self._pick(data, self._leases if data.draw(st.booleans()) or not useful else useful)
        until = None if delay is None else self._clock.now() + delay
        release = self._store.leases.release(lease, delay=(delay or 0) * MILLISECOND)
        self._expect(lambda: self._model.release(run, lease.number, wait_until=until), release)

    @precondition(lambda self: self._model.existing())
    @rule(data=st.data(), to=st.sampled_from([RunStatus.CANCELLED, RunStatus.FAILED]))
    def end(self, data: st.DataObject, to: RunStatus) -> None:
        """End any run, preferably a running one."""
        runs = self._model.existing()
        live = [run for run in runs if run.live]
        held = [run for run in live if run.owner is not None]
        which = data.draw(st.sampled_from(["held", "held", "live", "any"]))
        run = self._pick(data, {"held": held, "live": live, "any": runs}[which] or runs)
        self._expect(lambda: [ended.id for ended in self._model.end(run, to)], self._end(run, to))

    @precondition(lambda self: any(not run.live for run in self._model.existing()))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        run = self._pick(data, [run for run in self._model.existing() if not run.live])
        self._expect(lambda: self._model.delete(run), self._store.runs.delete(SPACE, run.id))
        if run.deleted:
            self._refused(NotFound, self._store.runs.delete(SPACE, run.id))

    @precondition(lambda self: self._timers_are_set())
    @rule(owner=st.sampled_from(OWNERS))
    def fire(self, owner: OwnerId) -> None:
        """Fire the due timers."""
        due = {
            name: run
            for run in self._model.existing()
            for name, timer in run.timers.items()
            if timer.state is TimerState.SCHEDULED and timer.due_at <= self._clock.now()
        }
        claims = self._run(self._store.timers.claim_due(owner, lease=timedelta(seconds=1)))
        assert {claim.timer.id for claim in claims} == due.keys()
        for claim in claims:
            run = due[claim.timer.id]
            run.timers[claim.timer.id].state = TimerState.FIRED
            put = self._store.inbox.put(SPACE, run.id, kind=InboxKind.TIMER, data=claim.timer.id, fires=claim)
            assert self._run(put) == self._model.put(run, InboxKind.TIMER, claim.timer.id)

    @precondition(lambda self: self._ground.one_writer and any(run.owner for run in self._model.runs))
    @rule()
    def restart(self) -> None:
        """Restart: one process owns the file, so every lease is released at the start."""
        self._ground.restart()
        self._model.expire(self._clock.now(), cap=MAX_ATTEMPTS, all_leases=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder in memory if possible: no process is killed here, so a disk would only add time."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[str]:
    """Yield an empty database on PostgreSQL."""
    yield await postgres.create_store("state_machine")
    await postgres.drop_database("state_machine")


def test_sqlite_matches_the_model_in_any_order_of_operations(folder: Path) -> None:
    _run_on(SqliteMachineDatabase(folder), settings(EVERY, max_examples=60, stateful_step_count=40))


def test_postgres_matches_the_model_in_any_order_of_operations(database: str) -> None:
    _run_on(PostgresMachineDatabase(database), settings(EVERY, max_examples=15, stateful_step_count=30))


@pytest.mark.slow
def test_sqlite_matches_the_model_in_long_runs(folder: Path) -> None:
    _run_on(SqliteMachineDatabase(folder), settings(EVERY, max_examples=1000, stateful_step_count=80))


@pytest.mark.slow
def test_postgres_matches_the_model_in_long_runs(database: str) -> None:
    _run_on(PostgresMachineDatabase(database), settings(EVERY, max_examples=200, stateful_step_count=80))


def _run_on(ground: MachineDatabase, wanted: settings) -> None:
    class RunLogOnGround(RunLog):
        def __init__(self) -> None:
            super().__init__(ground)

    try:
        run_state_machine_as_test(RunLogOnGround, settings=wanted)
    finally:
        ground.leave()
