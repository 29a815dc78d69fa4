"""Migrations: a database is migrated completely, or left unchanged."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Commit
from holdfast.domain.errors import StoreCorrupt, StoreReadOnly, StoreTooNew
from holdfast.domain.ids import InterruptId, RunId, SpaceId
from holdfast.domain.instant import Millis
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread, ThreadFilter
from holdfast.store import statements
from holdfast.store.postgres.database import migrate as migrate_postgres
from holdfast.store.sqlite.file import connect
from holdfast.store.sqlite.file import migrate as migrate_sqlite
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, claim
from tests.conformance.conftest import SPACE
from tests.conformance.tables import Rows, rows_of
from tests.schemas import Catalogue, catalogue_of, execute, fetch
from tests.support.database_probe import open_probe
from tests.support.log_check import check_rows
from tests.support.postgres import PostgresServer

COLOURS = ("0998_colours", "ALTER TABLE spaces ADD COLUMN colour TEXT;\nCREATE INDEX by_colour ON spaces (colour);\n")
BROKEN = (
    "0999_broken",
    "CREATE TABLE half (name TEXT);\nINSERT INTO half VALUES ('x');\nINSERT INTO nowhere VALUES (1);\n",
)
DATABASE_ERRORS = (sqlite3.Error, asyncpg.PostgresError)

OLD = RunId("r")
OF_THE_FIRST_VERSION = (
    "INSERT INTO spaces (id, name, metadata, created_at) VALUES ('acme', 'Acme', '{}', 1)",
    """INSERT INTO threads (space_key, id, agent_type, status, context_window, metadata, next_sequence,
                            listed_at, created_at)
       VALUES (1, 't', 'default', 'active', 50, '{}', 1, 1, 1)""",
    "INSERT INTO run_ids (space_key, id, run_key) VALUES (1, 'r', 1)",
    """INSERT INTO runs (space_key, thread_key, id, mode, agent_type, chain_depth, nesting, priority, tags,
                         limits, created_at)
       VALUES (1, 1, 'r', 'chat', 'default', 0, 0, 'normal', '[]', '{}', 1)""",
    """INSERT INTO run_heads (run_key, status, status_reason, head_start, queued_at, lease_number, last_event_seq)
       VALUES (1, 'waiting', 'person', 0, 1, 2, 1)""",
    """INSERT INTO messages (thread_key, run_key, id, sequence, role, content, metadata, created_at)
       VALUES (1, 1, 'm', 0, 'user', '"hello"', '{}', 1)""",
    """INSERT INTO events (run_key, seq, type, data, created_at)
       VALUES (1, 1, 'RUN_STARTED', '{"type":"RUN_STARTED","threadId":"t","runId":"r"}', 1)""",
    """INSERT INTO steps (run_key, number, kind, name, key, state, attempt, effectful, started_at)
       VALUES (1, 1, 'tool', 'look', 'k', 'started', 1, 1, 1)""",
    """INSERT INTO interrupts (space_key, run_key, id, kind, status, metadata, expires_at, created_at)
       VALUES (1, 1, 'i', 'input', 'open', '{}', 5, 1)""",
    """INSERT INTO timers (space_key, run_key, id, kind, due_at, state, created_at)
       VALUES (1, 1, 'x', 'nap', 9999999999999, 'scheduled', 1)""",
)
"""A run that waits for a person, as stored by the first version; every generated key is 1."""

Script: TypeAlias = tuple[str, str]
Known: TypeAlias = Callable[[list[Script]], None]
NewUrl: TypeAlias = Callable[[], Awaitable[str]]

_numbers = count(1)


@pytest.fixture
async def new_url(postgres: PostgresServer) -> AsyncIterator[NewUrl]:
    """Yield a function that creates PostgreSQL databases without a schema."""
    made: list[str] = []

    async def make() -> str:
        made.append(f"empty_{next(_numbers)}")
        return await postgres.create_database(made[-1])

    yield make
    for name in made:
        await postgres.drop_database(name)


@pytest.fixture
async def empties(backend: str, tmp_path: Path, new_url: NewUrl) -> list[str | Path]:
    """Return two databases without a schema."""
    return [tmp_path / f"{name}.db" if backend == "sqlite" else await new_url() for name in ("one", "two")]


@pytest.fixture
async def empty(backend: str, tmp_path: Path, new_url: NewUrl) -> str | Path:
    """Return a database without a schema."""
    return tmp_path / "empty.db" if backend == "sqlite" else await new_url()


@pytest.fixture
def scripts(backend: str) -> list[Script]:
    """Return the migrations of this version."""
    return statements.migrations(backend)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Return a function that replaces the migrations of this version."""

    def know(scripts: list[Script]) -> None:
        monkeypatch.setattr(statements, "migrations", lambda dialect: scripts)

    return know


async def open_once(where: str | Path, clock: HeldClock | None = None, **options: Any) -> None:
    async with open_store(where, bus=LocalBus(), clock=clock, **options):
        pass


async def migrate_once(where: str | Path) -> None:
    """Apply the known migrations, which the store may need more of to work."""
    if isinstance(where, Path):
        with closing(connect(where, read_only=False)) as connection:
            migrate_sqlite(connection, now=Millis(0))
        return
    connection = await asyncpg.connect(where)
    try:
        await migrate_postgres(connection, now=Millis(0))
    finally:
        await connection.close()


async def all_of(where: str | Path) -> tuple[Catalogue, dict[str, Rows]]:
    return await catalogue_of(where), await rows_of(where)


async def names(where: str | Path) -> list[str]:
    """Return the applied migrations of a database."""
    return [row["name"] for row in (await rows_of(where))["migrations"]]


async def test_a_fresh_schema_equals_all_migrations_applied_one_by_one(
    empties: list[str | Path], scripts: list[Script], known: Known
) -> None:
    grown, fresh = empties
    steps = [*scripts, COLOURS]
    for number in range(1, len(steps) + 1):
        known(steps[:number])
        await migrate_once(grown)
        assert await names(grown) == [name for name, _ in steps[:number]]
    await open_once(fresh)
    assert await catalogue_of(grown) == await catalogue_of(fresh)


async def test_migrating_again_changes_nothing(empty: str | Path, clock: HeldClock) -> None:
    await open_once(empty, clock)
    before = await all_of(empty)
    clock.tick(MINUTE)
    await open_once(empty, clock)
    assert await all_of(empty) == before


async def test_a_migration_keeps_existing_rows(empty: str | Path, scripts: list[Script], known: Known) -> None:
    async with open_store(empty, bus=LocalBus()) as store:
        made = await store.spaces.create(SPACE, name="Acme")
    known([*scripts, COLOURS])
    async with open_store(empty, bus=LocalBus()) as store:
        assert await store.spaces.get(SPACE) == made
        await store.spaces.create(SpaceId("new"), name="New")
    assert await names(empty) == [*(name for name, _ in scripts), "0998_colours"]


async def test_a_database_of_the_first_version_is_migrated_with_all_its_data(
    empty: str | Path, scripts: list[Script], known: Known, clock: HeldClock
) -> None:
    known(scripts[:1])
    await migrate_once(empty)
    for statement in OF_THE_FIRST_VERSION:
        await execute(empty, statement)
    before = await rows_of(empty)
    known(scripts)
    await open_once(empty, clock)
    after = await rows_of(empty)
    for table in before.keys() - {"migrations"}:
        kept = [{column: row[column] for column in old} for old, row in zip(before[table], after[table], strict=True)]
        assert kept == before[table]
    async with open_store(empty, bus=LocalBus(), clock=clock) as store:
        asking, step = await store.interrupts.get(SPACE, InterruptId("i")), (await store.steps.of_run(SPACE, OLD))[0]
        assert (asking.status, step.waits_for) == (InterruptStatus.OPEN, None)
        assert await store.interrupts.expire() == ["i"]
        lease = await claim(store)
        opening = await store.journal.open(lease)
        assert ([message.content for message in opening.messages], len(opening.steps)) == (["hello"], 1)
        assert await store.journal.next_task_id(lease, step="s") == 1
        child = NewRun(thread=NewThread(), parent_run_id=OLD, limits=Limits(token_budget=5, max_duration_seconds=60))
        await store.journal.commit(Commit(lease=lease, consumed=[1], children=[child]))
        await store.journal.commit(Commit(lease=await claim(store), usage=Usage(input_tokens=5, cost_usd=None)))
        assert len(await store.runs.end(SPACE, OLD)) == 2
    async with open_probe(empty) as probe:
        await check_rows(probe)


async def test_threads_of_child_runs_of_an_earlier_version_are_left_out_of_lists(
    empty: str | Path, scripts: list[Script], known: Known, clock: HeldClock
) -> None:
    known(scripts[:1])
    await migrate_once(empty)
    for statement in (
        *OF_THE_FIRST_VERSION,
        """INSERT INTO threads (space_key, id, agent_type, status, context_window, metadata, next_sequence,
                                listed_at, made_for_run, created_at)
           VALUES (1, 'of a child', 'default', 'active', 50, '{}', 0, 1, 2, 1)""",
        """INSERT INTO runs (space_key, thread_key, id, mode, agent_type, parent_key, root_key, chain_depth, nesting,
                             priority, tags, limits, created_at)
           VALUES (1, 2, 'child', 'task', 'default', 1, 1, 0, 1, 'normal', '[]', '{}', 1)""",
    ):
        await execute(empty, statement)
    known(scripts)
    async with open_store(empty, bus=LocalBus(), clock=clock) as store:
        listed = [await store.threads.page(SPACE, where=ThreadFilter(children=each)) for each in (False, True)]
    assert [[thread.id for thread in page.items] for page in listed] == [["t"], ["of a child", "t"]]


async def test_a_database_of_a_later_version_is_refused_and_left_unchanged(
    empty: str | Path, scripts: list[Script], known: Known
) -> None:
    known([*scripts, COLOURS])
    await open_once(empty)
    before = await all_of(empty)
    known(scripts)
    with pytest.raises(StoreTooNew) as caught:
        await open_once(empty)
    message = "the database was created by a later version of Holdfast (it has `0998_colours`): upgrade Holdfast"
    assert caught.value.message == message
    assert await all_of(empty) == before


async def test_a_later_version_is_refused_even_if_an_own_migration_is_missing(
    empty: str | Path, scripts: list[Script], known: Known
) -> None:
    known([*scripts, ("0999_later", COLOURS[1])])
    await open_once(empty)
    before = await all_of(empty)
    known([*scripts, ("0998_ours", "CREATE TABLE ours (name TEXT);")])
    with pytest.raises(StoreTooNew, match="`0999_later`"):
        await open_once(empty)
    assert await all_of(empty) == before


async def test_a_migration_with_another_checksum_is_refused(empty: str | Path, scripts: list[Script]) -> None:
    await open_once(empty)
    await execute(empty, "UPDATE migrations SET checksum = 'another'")
    before = await all_of(empty)
    with pytest.raises(StoreCorrupt, match=f"migration `{scripts[0][0]}` of the database is not the one"):
        await open_once(empty)
    assert await all_of(empty) == before


async def test_a_failed_migration_is_rolled_back_and_earlier_ones_stay(
    empty: str | Path, scripts: list[Script], known: Known
) -> None:
    known([*scripts, COLOURS])
    await open_once(empty)
    before = await all_of(empty)
    for broken in (BROKEN, ("0999_broken", BROKEN[1].removesuffix(";\n"))):
        known([*scripts, COLOURS, broken])
        with pytest.raises(DATABASE_ERRORS, match="nowhere"):
            await open_once(empty)
        assert await all_of(empty) == before
    known([*scripts, COLOURS, ("0999_broken", "CREATE TABLE half (name TEXT)")])
    await open_once(empty)
    assert (await rows_of(empty))["half"] == []


async def test_a_failed_first_migration_leaves_an_empty_database(
    empty: str | Path, scripts: list[Script], known: Known
) -> None:
    known([(scripts[0][0], scripts[0][1] + BROKEN[1])])
    with pytest.raises(DATABASE_ERRORS, match="nowhere"):
        await open_once(empty)
    assert await rows_of(empty) == {"migrations": []}
    known(scripts)
    await open_once(empty)
    assert await names(empty) == [name for name, _ in scripts]


async def test_many_stores_may_migrate_one_database_concurrently(new_url: NewUrl) -> None:
    url = await new_url()
    async with AsyncExitStack() as stack:
        opened = await asyncio.gather(
            *(stack.enter_async_context(open_store(url, bus=LocalBus())) for _ in range(8)), return_exceptions=True
        )
        assert [error for error in opened if isinstance(error, BaseException)] == []
    assert await names(url) == [script for script, _ in statements.migrations("postgres")]


async def test_the_connection_is_closed_when_the_database_is_refused(new_url: NewUrl) -> None:
    url = await new_url()
    await open_once(url)
    await execute(url, "UPDATE migrations SET checksum = 'another'")
    with pytest.raises(StoreCorrupt):
        await open_once(url)
    asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'holdfast'"
    async with asyncio.timeout(60):
        while await fetch(url, asked):
            pass


async def test_a_read_only_store_refuses_a_file_that_needs_a_migration(tmp_path: Path, known: Known) -> None:
    path, scripts = tmp_path / "holdfast.db", statements.migrations("sqlite")
    path.touch()
    with pytest.raises(StoreReadOnly, match="open it for writing once"):
        await open_once(path, read_only=True)
    await open_once(path)
    await open_once(path, read_only=True)
    before = await all_of(path)
    known([*scripts, COLOURS])
    with pytest.raises(StoreReadOnly, match="older than `0998_colours`"):
        await open_once(path, read_only=True)
    known([])
    with pytest.raises(StoreTooNew):
        await open_once(path, read_only=True)
    assert await all_of(path) == before
