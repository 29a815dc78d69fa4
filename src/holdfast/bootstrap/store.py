"""Opening a store and its bus; a database driver is imported only when it is used."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from holdfast.domain.instant import Millis
from holdfast.metrics.meters import Meters
from holdfast.ports.bus import Bus
from holdfast.ports.queue import Leases
from holdfast.ports.runtime import Clock
from holdfast.store.leases import SqlLeases
from holdfast.store.store import Store


class SystemClock:
    """`Clock` of this machine."""

    def now(self) -> Millis:
        """Return the current time."""
        return Millis(time.time_ns() // 1_000_000)


@asynccontextmanager
async def open_bus(where: str | Path, *, url: str | None = None) -> AsyncIterator[Bus]:
    """Open the bus of the store at `where`, or that of the NATS server at `url`."""
    if url is not None:
        from holdfast.bus.nats import open_bus as open_nats_bus

        async with open_nats_bus(url) as bus:
            yield bus
    elif is_postgres(where):
        from holdfast.bus.postgres import open_bus as open_postgres_bus

        async with open_postgres_bus(str(where)) as bus:
            yield bus
    else:
        from holdfast.bus.local import LocalBus

        yield LocalBus()


@asynccontextmanager
async def open_store(
    where: str | Path,
    *,
    bus: Bus | None = None,
    clock: Clock | None = None,
    read_only: bool = False,
    meters: Meters | None = None,
) -> AsyncIterator[Store]:
    """Open the store at `where`: the path of a SQLite file, or a `postgresql://` URL.

    `bus` publishes changes and `meters` counts them. A given `clock` also measures leases, for tests; otherwise
    PostgreSQL uses its own clock.
    """
    async with AsyncExitStack() as stack:
        if bus is None:
            bus = await stack.enter_async_context(open_bus(where))
        now = clock or SystemClock()
        if is_postgres(where):
            from holdfast.store.postgres.database import open_database as open_postgres

            postgres = open_postgres(str(where), clock=now, use_local_clock=clock is not None, bus=bus)
            yield Store(await stack.enter_async_context(postgres), meters=meters)
        else:
            from holdfast.store.sqlite.database import open_database as open_sqlite

            sqlite = open_sqlite(Path(where), clock=now, bus=bus, read_only=read_only)
            yield Store(await stack.enter_async_context(sqlite), meters=meters)


def lease_opener(where: str | Path, *, clock: Clock | None = None) -> Callable[[], AbstractAsyncContextManager[Leases]]:
    """Return a function that opens the leases of a PostgreSQL store over a single connection, on any event loop."""

    @asynccontextmanager
    async def open_leases() -> AsyncIterator[Leases]:
        from holdfast.bus.local import LocalBus
        from holdfast.store.postgres.database import open_single_connection

        database = open_single_connection(
            str(where), clock=clock or SystemClock(), use_local_clock=clock is not None, bus=LocalBus()
        )
        async with database as postgres:
            yield SqlLeases(postgres, Meters())

    return open_leases


def is_postgres(where: str | Path) -> bool:
    """Return whether `where` is a PostgreSQL URL, not a file."""
    return isinstance(where, str) and where.startswith(("postgresql://", "postgres://"))
