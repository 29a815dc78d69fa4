"""PostgreSQL dies, hangs or is disconnected: a typed error, no partial write, and recovery."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest

import holdfast.store.postgres.database
from holdfast.bootstrap import open_bus, open_store
from holdfast.bootstrap.store import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.errors import NotFound, OutcomeUnknown, Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import instant
from holdfast.store.postgres.database import open_database
from holdfast.store.store import Store
from holdfast.store.transaction import Transaction
from holdfast.testing.clock import HeldClock
from tests.builders import text_events
from tests.scenario.load import HANG_TIMEOUT_SECONDS, SPACE, check_commits, create_leased_runs, numbered_commit
from tests.scenario.proxy import CommitFault, Proxy, open_proxy
from tests.support.database_probe import open_probe
from tests.support.log_check import check_rows
from tests.support.postgres import PostgresServer

WRITERS = 32
OTHER = SpaceId("other")


class Writer:
    """Commits one number after the other, and retries after every error."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.lease = lease
        self.attempted: list[int] = []
        self.acknowledged: list[int] = []
        self.errors: list[Unavailable] = []
        self.possible: list[int] = []
        """Numbers with an unknown outcome; the others were refused."""
        self._store = store

    async def write(self) -> None:
        """Commit until cancelled."""
        while True:
            self.attempted.append(len(self.attempted) + 1)
            try:
                await self._store.journal.commit(numbered_commit(self.lease, self.attempted[-1]))
            except Unavailable as exc:
                self.errors.append(exc)
                if isinstance(exc, OutcomeUnknown):
                    self.possible.append(self.attempted[-1])
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                self.possible.append(self.attempted[-1])
                raise
            else:
                self.acknowledged.append(self.attempted[-1])

    async def stop(self) -> None:
        """Write once more: a cancelled commit is applied before it, or never."""
        self.attempted.append(len(self.attempted) + 1)
        await self._store.journal.commit(numbered_commit(self.lease, self.attempted[-1]))
        self.acknowledged.append(self.attempted[-1])

    async def wait_for_commits(self, count: int) -> None:
        """Wait for further commits."""
        target = len(self.acknowledged) + count
        while len(self.acknowledged) < target:  # noqa: ASYNC110 - it writes on
            await asyncio.sleep(0.01)


async def test_a_server_that_is_killed_and_restarted_under_load_loses_no_acknowledged_commit(
    own_postgres: PostgresServer,
) -> None:
    url = await own_postgres.create_database("holdfast")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_bus(url) as bus, open_store(url, bus=bus) as store:
        writers = [Writer(store, lease) for lease in await create_leased_runs(store, WRITERS)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(writer.write()) for writer in writers]
            for end in (own_postgres.kill, own_postgres.stop):
                await asyncio.gather(*(writer.wait_for_commits(2) for writer in writers))
                await end()
                before = [len(writer.errors) for writer in writers]
                while [len(writer.errors) for writer in writers] == before:  # noqa: ASYNC110 - until they notice
                    await asyncio.sleep(0.01)
                await own_postgres.start()
            await asyncio.gather(*(writer.wait_for_commits(2) for writer in writers))
            for task in tasks:
                task.cancel()
        assert any(writer.errors for writer in writers)
        await asyncio.gather(*(writer.stop() for writer in writers))
        for writer in writers:
            possible = [*writer.acknowledged, *writer.possible]
            await check_commits(store, writer.lease, acknowledged=writer.acknowledged, attempted=possible)
    async with open_probe(url) as probe:
        await check_rows(probe)


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncIterator[str]:
    yield await postgres.create_database("faults")
    await postgres.drop_database("faults")


@asynccontextmanager
async def holding_the_lock_of(url: str, lease: Lease) -> AsyncIterator[Any]:
    """Block every commit of a run."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "locker"})
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetch("SELECT 1 FROM run_heads WHERE run_key = $1 FOR UPDATE", lease.run_key)
    yield connection
    await transaction.rollback()
    await connection.close()


async def _waiting_for_locks(connection: Any) -> list[int]:
    """Return the sessions of the store that wait for a lock, once there are any."""
    sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' AND wait_event_type = 'Lock'"
    while not (rows := await connection.fetch(sql)):
        await asyncio.sleep(0.005)
        await connection.execute("SELECT pg_stat_clear_snapshot()")  # a transaction keeps its first look otherwise
    return [row["pid"] for row in rows]


async def test_a_waiting_commit_is_applied_after_the_earlier_ones(url: str) -> None:
    clock = HeldClock()
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(url, bus=LocalBus(), clock=clock) as store:
        (lease,) = await create_leased_runs(store, 1)
        async with holding_the_lock_of(url, lease) as locker:
            ending = asyncio.ensure_future(store.runs.end(SPACE, lease.run_id))
            await _waiting_for_locks(locker)
            clock.tick(timedelta(seconds=1))
        (ended,) = await ending
        assert ended.completed_at == instant(clock.now())


async def test_a_batch_whose_connection_is_cut_before_its_commit_is_written_once(url: str) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(url, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 4)
        async with holding_the_lock_of(url, leases[0]) as locker:
            commits = [asyncio.ensure_future(store.journal.commit(numbered_commit(lease, 1))) for lease in leases]
            for pid in await _waiting_for_locks(locker):
                await locker.execute("SELECT pg_terminate_backend($1), pg_stat_clear_snapshot()", pid)
            await _waiting_for_locks(locker)  # the batch is written again on another connection
        await asyncio.gather(*commits)
        for lease in leases:
            await check_commits(store, lease, acknowledged=[1], attempted=[1])


@pytest.fixture
async def proxy(url: str, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with open_proxy(url, tmp_path) as proxy:
        yield proxy


@pytest.mark.parametrize("fault", [CommitFault.LOST, CommitFault.UNANSWERED])
async def test_the_outcome_of_a_commit_can_be_read_after_a_cut_connection(proxy: Proxy, fault: CommitFault) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 3)
        await store.journal.commit(numbered_commit(leases[0], 1))
        proxy.fault = fault
        results = await asyncio.gather(
            *(store.journal.commit(numbered_commit(lease, 2)) for lease in leases), return_exceptions=True
        )
        assert any(isinstance(result, OutcomeUnknown) for result in results)
        for lease, result in zip(leases, results, strict=True):
            committed = await check_commits(store, lease, acknowledged=[], attempted=[1, 2])
            assert (2 in committed) == (fault is CommitFault.UNANSWERED or not isinstance(result, OutcomeUnknown))
        await asyncio.gather(*(store.journal.commit(numbered_commit(lease, 3)) for lease in leases))


@pytest.mark.parametrize("fault", [CommitFault.LOST, CommitFault.UNANSWERED])
async def test_the_outcome_of_a_commit_of_events_alone_can_be_read_after_a_cut_connection(
    proxy: Proxy, fault: CommitFault
) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        (lease,) = await create_leased_runs(store, 1)
        before = await store.journal.commit(Commit(lease=lease, events=text_events("before")))
        proxy.fault, proxy.trigger = fault, b"cut here"
        with pytest.raises(OutcomeUnknown):
            await store.journal.commit(Commit(lease=lease, events=text_events("cut here")))
        after = await store.journal.commit(Commit(lease=lease, events=text_events("after")))
        events = await store.events.after(SPACE, lease.run_id)
        assert [event.seq for event in events] == list(range(1, after.last_event_seq + 1))
        written = after.last_event_seq - before.last_event_seq
        assert written == len(text_events("x")) * (2 if fault is CommitFault.UNANSWERED else 1)


async def test_a_session_that_the_server_has_ended_is_replaced_unnoticed(proxy: Proxy) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        (lease,) = await create_leased_runs(store, 1)
        for number in range(5):
            await proxy.announce_shutdown()
            await asyncio.sleep(0.05)  # the driver reads the message while no statement runs
            await store.journal.commit(Commit(lease=lease, events=text_events(str(number))))
            await proxy.announce_shutdown()
            await asyncio.sleep(0.05)
            assert (await store.runs.get(SPACE, lease.run_id)).id == lease.run_id
            await proxy.announce_shutdown()
            await asyncio.sleep(0.05)
            await store.journal.commit(numbered_commit(lease, number))


async def test_a_session_that_ends_while_a_transaction_begins_is_replaced_unnoticed(proxy: Proxy) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        proxy.trigger = b"BEGIN"
        proxy.fault = CommitFault.LOST
        await store.spaces.create(OTHER, name="Other")
        proxy.fault = CommitFault.LOST
        assert (await store.spaces.get(OTHER)).name == "Other"


async def test_a_session_that_ends_in_a_transaction_is_replaced_unnoticed(proxy: Proxy) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        proxy.fault, proxy.trigger = CommitFault.LOST, b"cut here"
        await store.spaces.create(OTHER, name="cut here")
        assert (await store.spaces.get(OTHER)).name == "cut here"


async def test_a_transaction_that_was_idle_for_too_long_is_run_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast.store.postgres.database, "IDLE_IN_TRANSACTION_TIMEOUT_MS", 100)
    attempts = 0

    async def starve_once(tx: Transaction) -> int:
        nonlocal attempts
        attempts += 1
        await tx.all("migrations")
        if attempts == 1:
            time.sleep(0.5)  # noqa: ASYNC251 - blocks the loop, as a busy machine does
        return len(await tx.all("migrations"))

    async with open_database(url, clock=SystemClock(), use_local_clock=False, bus=LocalBus()) as database:
        for run in (database.read, database.write):
            attempts = 0
            assert await run(starve_once) > 0
            assert attempts == 2


async def test_a_restart_of_the_server_that_ends_all_sessions_fails_no_caller(own_postgres: PostgresServer) -> None:
    url = await own_postgres.create_database("ended")
    admin = await asyncpg.connect(own_postgres.url())
    try:
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(url, bus=LocalBus()) as store:
            await store.spaces.create(OTHER, name="Other")
            for _ in range(20):
                await asyncio.gather(*(store.spaces.get(OTHER) for _ in range(30)))  # opens all connections
                await admin.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'ended'")
    finally:
        await admin.close()


async def test_callers_that_are_cancelled_twice_return_no_open_transaction_to_the_pool(proxy: Proxy) -> None:
    reports: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["message"]))
    random = Random(20_260_131)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        await store.spaces.create(OTHER, name="Other")

        async def cancel_twice() -> None:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(store.spaces.get(OTHER))
                for _ in range(2):
                    await asyncio.sleep(random.uniform(0, 0.005))
                    reading.cancel()

        for _ in range(20):
            await asyncio.gather(*(cancel_twice() for _ in range(20)))
        assert (await store.spaces.get(OTHER)).name == "Other"
    assert reports == []


@pytest.mark.parametrize("fault", [CommitFault.LOST, CommitFault.UNANSWERED])
async def test_the_outcome_of_another_write_can_be_read_after_a_cut_connection(
    proxy: Proxy, fault: CommitFault
) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        proxy.fault = fault
        with pytest.raises(OutcomeUnknown):
            await store.spaces.create(SPACE, name="Acme")
        if fault is CommitFault.UNANSWERED:
            assert (await store.spaces.get(SPACE)).name == "Acme"
        else:
            with pytest.raises(NotFound):
                await store.spaces.get(SPACE)
        await store.spaces.create(OTHER, name="Other")


async def test_a_cut_after_an_acknowledged_commit_has_no_effect(proxy: Proxy) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        proxy.fault = CommitFault.ANSWERED
        await store.spaces.create(OTHER, name="Other")
        (lease,) = await create_leased_runs(store, 1)
        proxy.fault = CommitFault.ANSWERED
        await store.journal.commit(numbered_commit(lease, 1))
        proxy.fault = CommitFault.ANSWERED
        await check_commits(store, lease, acknowledged=[1], attempted=[1])


async def test_a_silent_server_hangs_no_caller(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(proxy.url, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 3)
    for timeout in ("COMMAND_TIMEOUT_SECONDS", "CONNECT_TIMEOUT_SECONDS"):
        monkeypatch.setattr(holdfast.store.postgres.database, timeout, 2.0)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(proxy.url, bus=LocalBus()) as store:
        proxy.fault = CommitFault.SILENCE
        async with asyncio.timeout(60):
            results = await asyncio.gather(
                *(store.journal.commit(numbered_commit(lease, 1)) for lease in leases),
                store.spaces.create(OTHER, name="Other"),
                store.runs.get(SPACE, leases[0].run_id),
                return_exceptions=True,
            )
        assert all(isinstance(result, Unavailable) for result in results), results
        proxy.fault = CommitFault.NONE
        await asyncio.gather(*(store.journal.commit(numbered_commit(lease, 2)) for lease in leases))
        for lease in leases:
            await check_commits(store, lease, acknowledged=[2], attempted=[2])


def _events_alone(lease: Lease, number: int) -> Commit:
    return Commit(lease=lease, events=text_events(f"{number}"))


@pytest.mark.parametrize("make", [numbered_commit, _events_alone])
async def test_a_statement_that_takes_too_long_is_cancelled(url: str, make: Callable[[Lease, int], Commit]) -> None:
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        async with open_store(url, bus=LocalBus()):  # creating its tables may take longer
            pass
        connection = await asyncpg.connect(url)
        await connection.execute("ALTER DATABASE faults SET statement_timeout = '1s'")
        await connection.close()
        async with open_store(url, bus=LocalBus()) as store:
            (lease,) = await create_leased_runs(store, 1)
            async with holding_the_lock_of(url, lease) as locker:
                await locker.execute("SET statement_timeout = 0")
                with pytest.raises(Unavailable) as caught:
                    await store.journal.commit(make(lease, 1))
                assert not isinstance(caught.value, OutcomeUnknown)
            await store.journal.commit(numbered_commit(lease, 2))
            await check_commits(store, lease, acknowledged=[2], attempted=[2])


async def test_an_unreachable_database_is_refused_with_one_sentence(postgres: PostgresServer, tmp_path: Path) -> None:
    await _ask_for_passwords_of(postgres, "guarded")
    host = postgres.url().partition("?")[2]
    addresses = {
        "no such database": postgres.url("missing"),
        "no such user": f"postgresql://nobody_known@/postgres?{host}",
        "wrong password": f"postgresql://guarded:wrong@/postgres?{host}",
        "no server at the socket": f"postgresql://postgres@/postgres?host={tmp_path}",
        "no server at the port": "postgresql://postgres@127.0.0.1:1/postgres",
    }
    for why, url in addresses.items():
        with pytest.raises(Unavailable) as caught:
            async with asyncio.timeout(HANG_TIMEOUT_SECONDS), open_store(url, bus=LocalBus()):
                pass
        assert "\n" not in caught.value.message, why
        assert "wrong" not in caught.value.message, "a password is never repeated"


async def _ask_for_passwords_of(postgres: PostgresServer, user: str) -> None:
    connection = await asyncpg.connect(postgres.url())
    await connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'right'")
    rules = Path(await connection.fetchval("SHOW hba_file"))
    await asyncio.to_thread(_prepend, rules, f"local all {user} scram-sha-256\n")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


def _prepend(path: Path, line: str) -> None:
    path.write_text(line + path.read_text())
