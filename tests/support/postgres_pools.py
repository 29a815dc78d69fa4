"""One connection pool for all stores of a database that tests use one after the other.

A new connection plans each statement again, which takes longer than most tests.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import pytest

from holdfast.store.postgres import database

CONNECTIONS: Final = 40
"""Enough for several stores at once: none waits for a connection of another."""

_open_pool: Final = database.open_pool
_close_pool: Final = database._close_pool
_pools: Final[dict[str, asyncpg.Pool]] = {}


@asynccontextmanager
async def shared_pool(url: str) -> AsyncIterator[None]:
    """Let every store at `url` use the same pool while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "open_pool", _find_pool)
        patch.setattr(database, "_close_pool", _keep_pool)
        _pools[url] = await _open_pool(url, CONNECTIONS)
        yield
        await _pools.pop(url).close()


async def _find_pool(url: str, connections: int = database.DEFAULT_CONNECTIONS) -> asyncpg.Pool:
    return _pools[url] if url in _pools and connections > 1 else await _open_pool(url, connections)


async def _keep_pool(pool: asyncpg.Pool) -> None:
    if pool not in _pools.values():
        await _close_pool(pool)
