"""Kills while messages are indexed, memories change, an index is rebuilt and texts are forgotten."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.domain.memory import Memory, MemoryStatus
from holdfast.domain.recall import RecallMode, RecallQuery
from holdfast.memory.indexing import Analysis, Indexer
from holdfast.memory.recall import SpaceRecall
from holdfast.memory.static_vectors import static_vectors
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.conformance.recall_rows import index_content
from tests.scenario.recall_victim import SPACE
from tests.support.postgres import PostgresServer


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
@pytest.mark.parametrize("kills", [20, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(7_200)])])
async def test_after_kills_the_index_equals_a_rebuild(
    tmp_path: Path, postgres: PostgresServer, backend: str, kills: int
) -> None:
    name = f"recall_kills_{kills}"
    where = tmp_path / "killed.db" if backend == "sqlite" else await postgres.create_database(name)
    async with open_store(where) as store:
        await store.spaces.create(SPACE, name="killed")
    command = [sys.executable, "-m", "tests.scenario.recall_victim", str(where), str(kills), "7"]
    assert await asyncio.to_thread(subprocess.call, command) == 0
    async with open_store(where) as store:
        await _check(store, where)
    if backend == "postgres":
        await postgres.drop_database(name)


async def _check(store: Store, where: str | Path) -> None:
    """Check what the killed processes left, and that indexing goes on from there."""
    tables = static_vectors()
    analysis = Analysis(tables, tables, lambda text: text)
    indexer, recall = Indexer(store.recall_index, analysis), SpaceRecall(store.recall_index, analysis, HeldClock())
    await index_content(where)  # checks that items, postings and counts agree
    await _check_supersession(store)
    for page in [await store.threads.page(SPACE, limit=5)]:
        for thread in page.items:
            query = RecallQuery(text="harbour ferry invoice garden", mode=RecallMode.KEYWORD, thread=thread.id)
            await recall.search(SPACE, query)
    await indexer.run_once()
    assert (await recall.status(SPACE)).pending == 0
    left = await index_content(where)
    assert len(left) == 1
    (index,) = left.values()
    assert index["items"]
    await store.recall_index.rebuild(SPACE)
    await indexer.run_once()
    assert await index_content(where) == left


async def _check_supersession(store: Store) -> None:
    """Check that each memory was replaced as a whole: once, and by one that says so."""
    kept = [each async for each in _every_memory(store)]
    by_id = {memory.id: memory for memory in kept}
    replaced = [memory for memory in kept if memory.status is MemoryStatus.SUPERSEDED]
    replacing = [old for memory in kept for old in memory.supersedes if old in by_id]
    assert sorted(replacing) == sorted(memory.id for memory in replaced if memory.superseded_by in by_id)
    assert len(replacing) == len(set(replacing))
    for memory in replaced:
        assert memory.superseded_by is None or memory.id in by_id[memory.superseded_by].supersedes


async def _every_memory(store: Store) -> AsyncIterator[Memory]:
    cursor = None
    while True:
        page = await store.memories.page(SPACE, limit=100, cursor=cursor)
        for memory in page.items:
            yield memory
        if page.next_cursor is None:
            return
        cursor = page.next_cursor
