"""Invalid commits, cancelled callers and a store closed in use: no other caller is affected."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest
from msgspec.structs import replace

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import (
    Conflict,
    HoldfastError,
    IllegalMove,
    Invalid,
    LeaseLost,
    NotFound,
    Unavailable,
)
from holdfast.domain.ids import SpaceId
from holdfast.domain.new_run import NewRun
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.scenario.conftest import NewLocation, Scripts
from tests.scenario.load import HANG_TIMEOUT_SECONDS, HOUR, SPACE, check_commits, create_leased_runs, numbered_commit
from tests.scenario.snapshot import Snapshot, snapshot
from tests.scenario.stage import START, Stage
from tests.scenario.workload import PLAYS
from tests.support.database_probe import Probe, open_probe
from tests.support.log_check import check_log, check_rows

SEED: Final = 20_260_131
TIMES: Final = 20


async def test_one_bad_commit_in_a_batch_fails_alone(new_location: NewLocation) -> None:
    location = await new_location()
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(location, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 12)
        settled = Step(number=1, kind=StepKind.MODEL, name="m", key="k", state=StepState.FAILED)
        await store.journal.commit(Commit(lease=leases[2], steps=[settled]))
        bad: dict[int, tuple[Commit, type[HoldfastError]]] = {
            2: (replace(numbered_commit(leases[2], 1), steps=[settled]), Conflict),
            4: (replace(numbered_commit(leases[4], 1), consumed=[99]), HoldfastError),
            6: (numbered_commit(replace(leases[6], number=leases[6].number - 1), 1), LeaseLost),
            8: (replace(numbered_commit(leases[8], 1), steps=[replace(settled, attempt=2**70)]), Invalid),
        }
        commits = [bad[index][0] if index in bad else numbered_commit(lease, 1) for index, lease in enumerate(leases)]
        results = await asyncio.gather(*map(store.journal.commit, commits), return_exceptions=True)
        for index, result in enumerate(results):
            assert isinstance(result, bad[index][1] if index in bad else Committed), (index, result)
        for index, lease in enumerate(leases):
            done = [] if index in bad else [1]
            await check_commits(store, lease, acknowledged=done, attempted=done)
        for index, (_, error) in bad.items():
            if error is not LeaseLost:
                await store.journal.commit(numbered_commit(leases[index], 2))
    async with open_probe(location) as probe:
        await check_rows(probe)


async def test_commits_of_cancelled_callers_are_complete_or_absent(new_location: NewLocation) -> None:
    random = Random(SEED)
    location = await new_location()
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(location, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 8)
        acknowledged: dict[int, list[int]] = {index: [] for index in range(len(leases))}
        for number in range(1, 21):
            tasks = [asyncio.ensure_future(store.journal.commit(numbered_commit(lease, number))) for lease in leases]
            await asyncio.sleep(random.choice([0, 0, 0.001, 0.002, 0.005]))
            for index, task in enumerate(tasks):
                if random.random() < 0.5 and task.cancel():
                    continue
                await task
                acknowledged[index].append(number)
        # Pending commits are applied before this one.
        await asyncio.gather(*(store.journal.commit(numbered_commit(lease, 99)) for lease in leases))
        for index, lease in enumerate(leases):
            await check_commits(store, lease, acknowledged=[*acknowledged[index], 99], attempted=[*range(1, 21), 99])
    async with open_probe(location) as probe:
        await check_rows(probe)


async def test_cancelled_readers_leave_nothing_open(
    new_location: NewLocation, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(await new_location(), bus=LocalBus()) as store:
        (lease,) = await create_leased_runs(store, 1)
        for turns in range(200):
            reading = asyncio.ensure_future(store.events.after(SPACE, lease.run_id))
            for _ in range(turns % 20):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
        assert (await store.runs.get(SPACE, lease.run_id)).id == lease.run_id
    assert [record.getMessage() for record in caplog.records] == []


class Progress:
    """The number of finished steps of a play."""

    def __init__(self) -> None:
        self.steps = 0

    async def note(self) -> None:
        """Count a step."""
        self.steps += 1

    async def reaches(self, steps: int) -> None:
        """Wait until so many steps are finished."""
        while self.steps < steps:  # noqa: ASYNC110 - it continues meanwhile
            await asyncio.sleep(0)


@pytest.mark.parametrize("play", ["tree", "deletion"])
async def test_writes_of_cancelled_callers_are_complete_or_absent(
    new_location: NewLocation, scripts: Scripts, play: str
) -> None:
    random = Random(SEED)
    location, clock = await new_location(), HeldClock(START)
    async with (
        asyncio.timeout(HANG_TIMEOUT_SECONDS),
        open_store(location, bus=LocalBus(), clock=clock) as store,
        open_probe(location) as probe,
    ):
        for number in range(TIMES // 2):
            space, progress = SpaceId(f"space-{number}"), Progress()
            stage = Stage(store, space, clock=clock, queue=asyncio.Lock(), note=progress.note)
            playing = asyncio.ensure_future(PLAYS[play](stage))
            await progress.reaches(number)
            await asyncio.sleep(random.choice([0, 0.0005, 0.001, 0.003]))
            playing.cancel()
            await asyncio.wait([playing])
            found = await _settled(probe, space)
            states = scripts[play][progress.steps : progress.steps + 2]
            assert found in states, f"`{play}` after {progress.steps} steps (seed {SEED})"
            await _end_all(store, space)
        await check_log(probe)


async def _settled(probe: Probe, space: SpaceId) -> Snapshot:
    """Return the snapshot once it is stable: pending writes are still applied."""
    found = await snapshot(probe, space)
    while True:
        await asyncio.sleep(0.02)
        before, found = found, await snapshot(probe, space)
        if before == found:
            return found


async def _end_all(store: Store, space: SpaceId) -> None:
    with suppress(NotFound):
        for run in reversed((await store.runs.page(space)).items):
            with suppress(IllegalMove):
                await store.runs.end(space, run.id)


async def test_every_pending_call_is_answered_when_the_store_is_closed(new_location: NewLocation) -> None:
    location = await new_location()
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        async with open_store(location, bus=LocalBus()) as store:
            leases = await create_leased_runs(store, 16)
            commits = [asyncio.ensure_future(store.journal.commit(numbered_commit(lease, 1))) for lease in leases]
            others: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(store.runs.get(SPACE, leases[0].run_id)),
                asyncio.ensure_future(store.spaces.create(SpaceId("other"), name="Other")),
                asyncio.ensure_future(store.leases.renew(leases[0].owner, leases, lease=HOUR)),
            ]
            await asyncio.sleep(0)
        results = await asyncio.gather(*commits, return_exceptions=True)
        assert {type(result) for result in results} <= {Committed, Unavailable}, results
        for answer in await asyncio.gather(*others, return_exceptions=True):
            assert not isinstance(answer, BaseException) or isinstance(answer, Unavailable), answer
        for call in _calls(store, leases[0]):
            with pytest.raises(Unavailable):
                await call()
        async with open_store(location, bus=LocalBus()) as store:
            for lease, result in zip(leases, results, strict=True):
                done = [1] if isinstance(result, Committed) else []
                await check_commits(store, lease, acknowledged=done, attempted=done)


def _calls(store: Store, lease: Lease) -> list[Callable[[], Awaitable[object]]]:
    """Return one call of each kind."""
    return [
        lambda: store.journal.commit(numbered_commit(lease, 2)),
        lambda: store.leases.claim(lease.owner, lease=HOUR),
        lambda: store.runs.create(SPACE, NewRun(thread=lease.thread_id)),
        lambda: store.runs.end(SPACE, lease.run_id),
        lambda: store.runs.get(SPACE, lease.run_id),
        lambda: store.spaces.page(),
    ]
