"""`StoreHealth`, and the readiness that a server derives from it."""

import asyncio
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.control.monitoring import WRITE_CHECK_INTERVAL_SECONDS, HealthControl
from holdfast.domain.errors import StoreReadOnly, Unavailable
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE
from tests.conformance.tables import rows_of
from tests.support.database_probe import open_probe
from tests.support.postgres import PostgresServer


async def test_a_check_leaves_one_row_however_often_it_is_made(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    for _ in range(3):
        await store.health.check_write()
        clock.tick(MINUTE)
    (row,) = (await rows_of(where))["write_check"]
    assert row["checked_at"] == clock.now() - 60_000


async def test_requests_within_two_seconds_share_one_write(store: Store, clock: HeldClock, where: str | Path) -> None:
    now = 0.0
    health = HealthControl(store.health, version="1", monotonic=lambda: now)
    started = clock.now()

    async def last_write() -> int:
        (row,) = (await rows_of(where))["write_check"]
        return int(row["checked_at"]) - started

    await asyncio.gather(*(health.ready() for _ in range(50)))
    clock.tick(MINUTE)
    now += WRITE_CHECK_INTERVAL_SECONDS / 2
    await health.ready()
    assert await last_write() == 0
    now += WRITE_CHECK_INTERVAL_SECONDS / 2
    await health.ready()
    assert await last_write() == 60_000


async def test_a_server_is_not_ready_once_its_database_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with open_store(path, bus=LocalBus()) as store:
        health = HealthControl(store.health, version="1")
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(Unavailable, match="was moved or deleted: put it back"):
            await health.ready()
        (tmp_path / "elsewhere.db").rename(path)
        with pytest.raises(Unavailable, match="was moved or deleted"):  # remembered
            await health.ready()


async def test_a_server_on_a_read_only_postgres_is_not_ready() -> None:
    now = 0.0
    async with PostgresServer() as server, open_store(await server.create_database("held"), bus=LocalBus()) as store:
        health = HealthControl(store.health, version="1", monotonic=lambda: now)
        await health.ready()
        for read_only in ("on", "off"):
            async with open_probe(server.url()) as probe:
                await probe.rows("SET default_transaction_read_only = off")
                await probe.rows(f"ALTER SYSTEM SET default_transaction_read_only = {read_only}")
                await probe.rows("SELECT pg_reload_conf()")
                while await _is_read_only(store) is not (read_only == "on"):
                    pass  # the sessions of the store have not read the setting yet
            now += WRITE_CHECK_INTERVAL_SECONDS
            if read_only == "on":
                with pytest.raises(StoreReadOnly, match="read-only: connect to its primary server"):
                    await health.ready()
        await health.ready()


async def _is_read_only(store: Store) -> bool:
    try:
        await store.health.check_write()
    except StoreReadOnly:
        return True
    return False
