"""Which adapter fills which port: the only module that knows."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.bus.local import LocalBus
from holdfast.domain.instant import Millis
from holdfast.ports.bus import Bus
from holdfast.ports.clock import Clock
from holdfast.store.store import Store


class SystemClock:
    """`Clock` of this machine."""

    def now(self) -> Millis:
        """Return the present moment."""
        return Millis(time.time_ns() // 1_000_000)


def is_postgres(where: str | Path) -> bool:
    """Say whether `where` names a PostgreSQL database rather than a file."""
    return isinstance(where, str) and where.startswith(("postgresql://", "postgres://"))


@asynccontextmanager
async def open_bus(where: str | Path) -> AsyncIterator[Bus]:
    """Open the bus of those who use the store at `where`."""
    if is_postgres(where):
        from holdfast.bus.postgres import open_bus as open_postgres_bus

        async with open_postgres_bus(str(where)) as bus:
            yield bus
    else:
        yield LocalBus()


@asynccontextmanager
async def open_store(
    where: str | Path, *, bus: Bus, clock: Clock | None = None, read_only: bool = False
) -> AsyncIterator[Store]:
    """Open the store at `where`: the path of a SQLite file, or a `postgresql://` URL.

    A `clock` that is given also measures leases, as tests want it; otherwise PostgreSQL does so by its own.
    """
    if is_postgres(where):
        from holdfast.store.postgres.database import open_database as open_postgres

        postgres = open_postgres(str(where), clock=clock or SystemClock(), keeps_time=clock is not None, bus=bus)
        async with postgres as database:
            yield Store(database)
    else:
        from holdfast.store.sqlite.database import open_database as open_sqlite

        sqlite = open_sqlite(Path(where), clock=clock or SystemClock(), bus=bus, read_only=read_only)
        async with sqlite as database:
            yield Store(database)
