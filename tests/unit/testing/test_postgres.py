"""The PostgreSQL server of the tests: durable, killable, and removed afterwards."""

import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.support.postgres import PostgresServer


async def test_a_server_that_a_test_may_kill_is_as_durable_as_a_real_one(own_postgres: PostgresServer) -> None:
    settings = ("fsync", "synchronous_commit", "full_page_writes", "max_connections")
    connection = await asyncpg.connect(own_postgres.url())
    try:
        assert [await connection.fetchval(f"SHOW {name}") for name in settings] == ["on", "on", "on", "200"]
    finally:
        await connection.close()


async def test_a_database_starts_as_a_copy_of_its_template(postgres: PostgresServer) -> None:
    template = await postgres.create_database("copied")
    await _execute(template, "CREATE TABLE kept AS SELECT 7 AS number")
    copy = await postgres.create_database("copy", template="copied")
    try:
        assert await _fetch(copy, "SELECT number FROM kept") == [7]
    finally:
        await postgres.drop_database("copy")
        await postgres.drop_database("copied")


async def test_a_database_that_exists_is_not_created_again(postgres: PostgresServer) -> None:
    with pytest.raises(RuntimeError, match="already exists"):
        await postgres.create_database("postgres")


async def test_a_killed_server_restarts_with_committed_data(own_postgres: PostgresServer) -> None:
    url = own_postgres.url()
    await _execute(url, "CREATE TABLE kept (number int); INSERT INTO kept VALUES (1)")
    session = await asyncpg.connect(url)
    await session.execute("BEGIN; INSERT INTO kept VALUES (2)")
    await own_postgres.kill()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await session.execute("COMMIT")
    with pytest.raises(OSError):
        await asyncpg.connect(url)
    await own_postgres.start()
    assert await _fetch(url, "SELECT number FROM kept") == [1]


async def test_a_restart_keeps_the_address(own_postgres: PostgresServer) -> None:
    url = await own_postgres.create_database("kept")
    await own_postgres.restart()
    assert await _fetch(url, "SELECT 1") == [1]


async def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="max_connections"):
        async with PostgresServer(max_connections="nonsense"):
            pass


def test_no_server_outlives_a_killed_test_run() -> None:
    program = """if True:
        import asyncio, time
        from tests.support.postgres import PostgresServer
        server = PostgresServer()
        asyncio.run(server.start())
        print(server.url(), flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        folder = Path(parse_qs(urlsplit(url).query)["host"][0])
        assert folder.exists()
        process.kill()
    deadline = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()


async def _execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def _fetch(url: str, sql: str) -> list[object]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(sql)]
    finally:
        await connection.close()
