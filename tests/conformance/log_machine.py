"""Base of the state machine: operations that are applied both to the store and to its model."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from msgspec import structs

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, HoldfastError, IdempotencyMismatch, IdTaken
from holdfast.domain.ids import MessageId, OwnerId, RunId, ThreadId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.instant import Instant, Millis, instant, millis
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import TimerState
from holdfast.store.store import Store
from tests.builders import user
from tests.conformance.log_invariants import SPACE, check_everything, check_heads, check_opening, check_touched
from tests.conformance.log_model import Model, ModelRun, ModelThread, Said, Start
from tests.conformance.log_worker import Planned, Turn, plan
from tests.conformance.machine_database import MachineDatabase

T = TypeVar("T")
Thing = TypeVar("Thing", ModelRun, ModelThread, tuple[ModelRun, Lease])

OWNERS: Final = tuple(OwnerId(name) for name in ("first", "second", "third"))
THREADS: Final = (ThreadId("one"), ThreadId("two"))


@dataclass(frozen=True)
class Birth:
    """A run to create, with its expected start or error."""

    new: NewRun
    thread: ModelThread
    said: list[Said]
    parent: ModelRun | None
    start: Start | type[HoldfastError]


class LogMachine(RuleBasedStateMachine):
    """Applies each operation to the store and to the model, and compares the results."""

    def __init__(self, ground: MachineDatabase) -> None:
        super().__init__()
        self._ground = ground
        self._clock = ground.clock
        self._model = Model()
        self._model.threads += [ModelThread(thread) for thread in THREADS]
        self._leases: list[tuple[ModelRun, Lease]] = []
        """Every lease that was ever claimed."""
        self._made: dict[ModelRun, NewRun] = {}
        self._steps = 0
        ground.begin()
        self._run(self._begin())

    @property
    def _store(self) -> Store:
        return self._ground.store

    @invariant()
    def the_log_is_as_it_should_be(self) -> None:
        self._model.settle()
        self._steps += 1
        if self._steps % self._ground.stride == 0:
            self._run(check_touched(self._store, self._model))
        self._run(check_heads(self._store, self._ground.probe, self._model, self._clock.now()))

    def teardown(self) -> None:
        """Compare everything at the end, unless a check has failed already."""
        try:
            if sys.exc_info()[0] is None:
                self._run(check_everything(self._store, self._ground.probe, self._model))
        finally:
            self._ground.finish()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._ground.run(work)

    def _at_once(self, *work: Awaitable[Any]) -> list[Any]:
        """Return the result or error of each."""

        async def gather() -> list[Any]:
            return await asyncio.gather(*work, return_exceptions=True)

        return self._run(gather())

    def _in_order(self, *work: Awaitable[Any]) -> list[Any]:
        """Return the result or error of each, applied in order: SQLite's single writer guarantees that by itself."""
        if self._ground.one_writer:
            return self._at_once(*work)
        return [outcome for each in work for outcome in self._at_once(each)]

    def _refused(self, kind: type[HoldfastError], work: Coroutine[Any, Any, object]) -> None:
        with pytest.raises(kind) as caught:
            self._run(work)
        assert caught.type is kind

    def _expect(self, predict: Callable[[], T], work: Coroutine[Any, Any, T]) -> None:
        """Expect the outcome of the model: the same result, or the same error."""
        try:
            expected = predict()
        except HoldfastError as exc:
            self._refused(type(exc), work)
        else:
            assert self._run(work) == expected

    def _pick(self, data: st.DataObject, things: Sequence[Thing]) -> Thing:
        """Choose one by name, because Hypothesis prints the choice."""
        names = {_called(thing): thing for thing in things}
        return names[data.draw(st.sampled_from(list(names)))]

    def _held(self) -> list[tuple[ModelRun, Lease]]:
        return [(run, lease) for run, lease in self._leases if _holds(run, lease)]

    def _lost(self) -> list[tuple[ModelRun, Lease]]:
        return [(run, lease) for run, lease in self._leases if not _holds(run, lease)]

    def _in(self, delay: int | None) -> Instant | None:
        return None if delay is None else instant(Millis(self._clock.now() + delay))

    def _create(
        self,
        data: st.DataObject,
        thread: ModelThread,
        new: NewRun,
        place: Callable[[], Start],
        parent: ModelRun | None = None,
    ) -> None:
        birth = self._expecting(data, thread, new, place, parent)
        create = self._store.runs.create(SPACE, birth.new)
        if isinstance(birth.start, Start):
            self._run(create)
            self._born(birth, birth.start)
        else:
            self._refused(birth.start, create)

    def _expecting(
        self,
        data: st.DataObject,
        thread: ModelThread,
        new: NewRun,
        place: Callable[[], Start],
        parent: ModelRun | None = None,
        *,
        keyed: bool = True,
    ) -> Birth:
        """Return a run to create, with its expected outcome."""
        said = self._input(data, thread)
        run_id = RunId(self._model.name("run"))
        messages = [user(message.name, id=message.id) for message in said]
        key = run_id if keyed and data.draw(st.booleans()) else None
        new = structs.replace(new, id=run_id, messages=messages, idempotency_key=key)
        try:
            start = place()
            self._model.check_new(start, parent, [message.id for message in said])
        except HoldfastError as exc:
            return Birth(new, thread, said, parent, type(exc))
        return Birth(new, thread, said, parent, start)

    def _born(self, birth: Birth, start: Start) -> None:
        new, run_id = birth.new, birth.new.id
        assert run_id is not None
        self._model.end_all(start.cancel, RunStatus.CANCELLED)
        run = ModelRun(
            id=run_id,
            thread=birth.thread,
            base=start.base,
            cut=start.cut,
            parent=birth.parent,
            given=dict(new.values),
            said=[*self._model.not_run(start), *birth.said],
            wait_until=None if new.wait_until is None else millis(new.wait_until),
            budget=new.limits.token_budget,
        )
        run.events += [event.data for event in self._run(self._store.events.after(SPACE, run_id))]
        assert len(run.events) == 1
        if run.thread not in self._model.threads:
            self._model.threads.append(run.thread)
        self._model.add(run)
        self._made[run] = new

    def _create_on(self, data: st.DataObject, thread: ModelThread, **options: Any) -> None:
        """Continue the newest run of a thread."""
        new = NewRun(thread=thread.id, **options)
        self._create(data, thread, new, lambda: self._model.place(thread, new.on_busy))
        self._model.settle()

    def _spawn(self, data: st.DataObject, parent: ModelRun) -> None:
        """Create a child, on a new thread or on that of an earlier child."""
        had = [thread for thread in self._model.open_threads() if thread.made_for_run and thread is not parent.thread]
        if data.draw(st.booleans()) and had:
            thread = self._pick(data, had)
            new = NewRun(thread=thread.id, parent_run_id=parent.id)
            self._create(data, thread, new, lambda: self._model.place(thread, new.on_busy), parent)
        else:
            fresh = ModelThread(ThreadId(self._model.name("thread")), made_for_run=True)
            new = NewRun(thread=NewThread(id=fresh.id), parent_run_id=parent.id)
            self._create(data, fresh, new, lambda: Start(None), parent)
        self._model.settle()

    def _create_again(self, run: ModelRun) -> None:
        """Expect that a repeated request creates no second run, and that ids are never reused."""
        new = self._made[run]
        if run.thread in self._model.open_threads():
            other = NewRun(thread=run.thread.id, id=run.id, base=None)
            self._refused(IdTaken, self._store.runs.create(SPACE, other))
        if new.idempotency_key is None:
            return
        self._refused(IdempotencyMismatch, self._store.runs.create(SPACE, structs.replace(new, tags=["other"])))
        if run.deleted:
            self._refused(Conflict, self._store.runs.create(SPACE, new))
        else:
            created = self._run(self._store.runs.create(SPACE, new))
            assert (created.run.id, created.replayed) == (run.id, True)

    def _input(self, data: st.DataObject, thread: ModelThread) -> list[Said]:
        """Return up to two messages; one may revise another, under the same id."""
        names = [self._model.name("says") for _ in range(data.draw(st.integers(0, 2)))]
        said = [Said(name, id=MessageId(name)) for name in names]
        used = [old.id for run in self._model.existing() if run.thread is thread for old in run.said if old.id]
        if said and used and data.draw(st.booleans()):
            said[0] = Said(names[0], id=data.draw(st.sampled_from(used)))
        return said

    def _claim(self, owner: OwnerId, *, limit: int, seconds: int) -> None:
        """Claim runs: all claimable ones up to the limit, each with a greater lease number than before."""
        now = self._clock.now()
        ready = {run.id: run for run in self._model.runs if run.ready(now)}
        leases = self._run(self._store.leases.claim(owner, lease=timedelta(seconds=seconds), limit=limit))
        assert len({lease.run_id for lease in leases}) == min(limit, len(ready))
        for lease in leases:
            run = ready[lease.run_id]
            self._model.claimed(run, owner, expires_at=now + seconds * 1000)
            assert (lease.number, lease.owner) == (run.lease_number, owner)
            self._leases.append((run, lease))

    def _has_work(self, least: int = 1) -> bool:
        ready = [run for run in self._model.runs if run.ready(self._clock.now())]
        return len(self._held()) + len(ready) >= least

    def _waits_for_time(self) -> bool:
        runs = self._model.runs
        return any(run.owner is not None or run.wait_until is not None for run in runs) or self._timers_are_set()

    def _timers_are_set(self) -> bool:
        timers = [timer for run in self._model.existing() for timer in run.timers.values()]
        return any(timer.state is TimerState.SCHEDULED for timer in timers)

    def _worker(self, data: st.DataObject) -> tuple[ModelRun, Lease]:
        """Return a held lease, claimed now if there is none."""
        if not self._held():
            self._claim(data.draw(st.sampled_from(OWNERS)), limit=1, seconds=60)
        return self._pick(data, self._held())

    def _plan(self, run: ModelRun, lease: Lease, turn: Turn) -> Planned:
        """Read the run as a worker does, and decide what to commit."""
        opening = self._run(self._store.journal.open(lease))
        assert {item.number: (item.kind, _what(item)) for item in opening.inbox} == run.unread
        check_opening(opening, run)
        return plan(self._model, run, lease, turn, self._clock.now())

    def _apply(self, planned: Planned) -> None:
        """Apply a commit to the model."""
        planned.apply(self._model)
        for new in planned.commit.children:
            assert isinstance(new.thread, NewThread) and new.thread.id is not None
            thread = ModelThread(new.thread.id, made_for_run=True)
            self._born(Birth(new, thread, [], planned.run, Start(None)), Start(None))

    def _commit(self, run: ModelRun, lease: Lease, turn: Turn) -> None:
        planned = self._plan(run, lease, turn)
        commit = self._store.journal.commit(planned.commit)
        if planned.error is not None:
            self._refused(planned.error, commit)
            self._model.touched.add(run)
            return
        committed = self._run(commit)
        self._apply(planned)
        assert (committed.last_event_seq, committed.unread) == (len(run.events), len(run.unread))
        assert len(committed.sequences) == len(committed.message_ids) == len(planned.said)

    async def _put_item(self, run: ModelRun, what: str) -> int:
        return await self._store.inbox.put(
            SPACE, run.id, kind=InboxKind.MESSAGE, data={"role": "user", "content": what}
        )

    async def _end(self, run: ModelRun, to: RunStatus) -> list[RunId]:
        return [ended.id for ended in await self._store.runs.end(SPACE, run.id, to=to)]

    async def _begin(self) -> None:
        await self._store.spaces.create(SPACE, name="Acme")
        for thread in THREADS:
            await self._store.threads.create(SPACE, NewThread(id=thread))


def _called(thing: ModelRun | ModelThread | tuple[ModelRun, Lease]) -> str:
    return f"{thing[0].id}, lease {thing[1].number}" if isinstance(thing, tuple) else thing.id


def _holds(run: ModelRun, lease: Lease) -> bool:
    return run.status is RunStatus.RUNNING and run.lease_number == lease.number


def _what(item: InboxItem) -> str:
    """Return the name of an item in the model."""
    match item.kind, item.data:
        case InboxKind.CHILD, {"run_id": run_id, "status": status}:
            return f"{run_id} {status}"
        case InboxKind.RESPONSE, {"interrupt_id": interrupt}:
            return str(interrupt)
        case InboxKind.MESSAGE, {"content": content}:
            return str(content)
        case _:
            return str(item.data)
