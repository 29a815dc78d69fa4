"""Opening a store and its bus; a database driver is imported only when it is used."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from holdfast.domain.instant import Millis
from holdfast.metrics.meters import Meters
from holdfast.ports.bus import Bus
from holdfast.ports.runtime import Clock
from holdfast.store.store import Store


class SystemClock:
    """`Clock` of this machine."""

    def now(self) -> Millis:
        """Return the present moment."""
        return Millis(time.time_ns() // 1_000_000)


@asynccontextmanager
async def open_bus(where: str | Path) -> AsyncIterator[Bus]:
    """Open the bus of those who use the store at `where`."""
    if is_postgres(where):
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

    Give it a `bus` to hear of what is written, and `meters` to count it with. A `clock` that is given also measures
    leases, as tests want it; otherwise PostgreSQL does so by its own.
    """
    async with AsyncExitStack() as stack:
        tell = await stack.enter_async_context(open_bus(where)) if bus is None else bus
        now = clock or SystemClock()
        if is_postgres(where):
            from holdfast.store.postgres.database import open_database as open_postgres

            opening = open_postgres(str(where), clock=now, use_local_clock=clock is not None, bus=tell)
            yield Store(await stack.enter_async_context(opening), meters=meters)
        else:
            from holdfast.store.sqlite.database import open_database as open_sqlite

            opened = open_sqlite(Path(where), clock=now, bus=tell, read_only=read_only)
            yield Store(await stack.enter_async_context(opened), meters=meters)


def is_postgres(where: str | Path) -> bool:
    """Say whether `where` is on a server, and no file."""
    return isinstance(where, str) and where.startswith(("postgresql://", "postgres://"))
