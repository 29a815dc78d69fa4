"""`python -m tests.scenario.recall_victim DATABASE KILLS SEED`: says, indexes, supersedes and forgets until killed.

The process imports everything once and forks a child for each kill, which takes milliseconds.
"""

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from holdfast.bootstrap import open_store
from holdfast.domain.errors import HoldfastError
from holdfast.domain.forgetting import ForgetRequest
from holdfast.domain.ids import SpaceId
from holdfast.domain.memory import MemoryPatch, MemoryType, NewMemory
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.memory.indexing import Analysis, Indexer
from holdfast.memory.static_vectors import static_vectors
from holdfast.store.store import Store

SPACE: Final = SpaceId("killed")
MAX_LIFE_SECONDS: Final = 0.6
WORDS: Final = ("harbour", "ferry", "invoice", "garden", "kitchen", "printer", "coffee", "window", "river", "letter")


def main() -> None:
    """Kill one child after the other at a random moment after it has opened the store; the first has also indexed."""
    where, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    static_vectors().tokens("loads the tables")
    for number in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            asyncio.run(work(where, random.Random(seed * 1_000 + number), ready=writing, rounds=int(number == 0)))
            os._exit(0)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        time.sleep(chance.uniform(0.02, MAX_LIFE_SECONDS))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def work(where: str, chance: random.Random, *, ready: int, rounds: int) -> None:
    """Say, index, keep, change, supersede and forget until killed; write to the pipe `ready` after so many rounds."""
    database = where if where.startswith("postgresql://") else Path(where)
    async with open_store(database) as store:
        tables = static_vectors()
        indexer = Indexer(store.recall_index, Analysis(tables, tables, lambda text: text))
        for number in count():
            if number == rounds:
                os.write(ready, b"!")
            await _say(store, chance)
            await indexer.index_space(SPACE)
            if chance.random() < 0.3:
                await store.recall_index.rebuild(SPACE)
            if chance.random() < 0.2:
                await _forget(store, chance)


async def _say(store: Store, chance: random.Random) -> None:
    thread = await store.threads.create(SPACE, NewThread())
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(2, 60))) for _ in range(chance.randint(1, 20))]
    messages = [NewMessage(role=Role.USER, content=text) for text in texts]
    made = await store.runs.create(SPACE, NewRun(thread=thread.id, base=None, messages=messages))
    await store.runs.end(SPACE, made.run.id)
    memory = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text=texts[0]))).memory
    await store.memories.update(SPACE, memory.id, MemoryPatch(text=f"{texts[-1]} again"))
    if chance.random() < 0.5:
        await _supersede(store, chance)


async def _supersede(store: Store, chance: random.Random) -> None:
    """Replace a memory by one that has a key, as an agent does: whoever does it again adds nothing."""
    old = chance.choice((await store.memories.page(SPACE, limit=20)).items)
    new = NewMemory(type=MemoryType.SEMANTIC, text=f"{old.text} no more", supersedes=[old.id], key=f"instead.{old.id}")
    with suppress(HoldfastError):  # it is superseded already
        await store.memories.put(SPACE, new)
        await store.memories.put(SPACE, new)


async def _forget(store: Store, chance: random.Random) -> None:
    runs = (await store.runs.page(SPACE, limit=20)).items
    try:
        await store.forgetting.forget(SPACE, ForgetRequest(run_id=chance.choice(runs).id))
    except HoldfastError:
        return  # a run that a killed child did not end


if __name__ == "__main__":
    main()
