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


@asynccontextmanager
async def open_store(
    where: str | Path, *, clock: Clock | None = None, bus: Bus | None = None, read_only: bool = False
) -> AsyncIterator[Store]:
    """Open the store at `where`: a path of a SQLite file, or a `postgresql://` URL."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        from holdfast.store.postgres.database import open_database as open_postgres  # its driver is an extra

        async with open_postgres(where, clock=clock, bus=bus) as postgres:
            yield Store(postgres)
    else:
        from holdfast.store.sqlite.database import open_database as open_sqlite

        path, clock, bus = Path(where), clock or SystemClock(), bus or LocalBus()
        async with open_sqlite(path, clock=clock, bus=bus, read_only=read_only) as sqlite:
            yield Store(sqlite)
