"""`python -m tests.scenario.recall_victim DATABASE KILLS SEED`: says, indexes, supersedes and forgets until killed.

The process imports everything once and forks a child for each kill, which takes milliseconds. A child tells by a byte
which phase it begins, and each phase gets its share of the kills.
"""

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import suppress
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
PHASES: Final = ("say", "supersede", "index", "build", "forget")
MAX_PHASE_SECONDS: Final = 0.03
"""How long a child lives in the phase that it is killed in."""
WORDS: Final = ("harbour", "ferry", "invoice", "garden", "kitchen", "printer", "coffee", "window", "river", "letter")


def main() -> None:
    """Kill one child after the other in a phase, after a round of all of them."""
    where, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    static_vectors().tokens("loads the tables")
    for number in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            asyncio.run(work(where, random.Random(seed * 1_000 + number), told=writing))
            os._exit(0)
        os.close(writing)
        wanted, rounds = bytes([number % len(PHASES)]), int(number < len(PHASES))
        while (begun := os.read(reading, 1)) and (begun != wanted or rounds):
            rounds -= begun == wanted
        os.close(reading)
        assert begun, "a child ended before it was killed"
        time.sleep(chance.uniform(0, MAX_PHASE_SECONDS))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def work(where: str, chance: random.Random, *, told: int) -> None:
    """Say, keep, change, supersede, index, rebuild and forget until killed; tell each phase to a pipe."""
    database = where if where.startswith("postgresql://") else Path(where)
    async with open_store(database) as store:
        tables = static_vectors()
        indexer = Indexer(store.recall_index, Analysis(tables, tables, lambda text: text))
        steps = {
            "say": lambda: _say(store, chance),
            "supersede": lambda: _supersede(store, chance),
            "index": lambda: indexer.index_space(SPACE),
            "build": lambda: _rebuild(store, indexer),
            "forget": lambda: _forget(store, chance),
        }
        while True:
            for number, phase in enumerate(PHASES):
                with suppress(BrokenPipeError):  # the phase to be killed in has begun
                    os.write(told, bytes([number]))
                await steps[phase]()


async def _say(store: Store, chance: random.Random) -> None:
    thread = await store.threads.create(SPACE, NewThread())
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(2, 60))) for _ in range(chance.randint(1, 20))]
    messages = [NewMessage(role=Role.USER, content=text) for text in texts]
    made = await store.runs.create(SPACE, NewRun(thread=thread.id, base=None, messages=messages))
    await store.runs.end(SPACE, made.run.id)
    memory = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text=texts[0]))).memory
    await store.memories.update(SPACE, memory.id, MemoryPatch(text=f"{texts[-1]} again"))


async def _rebuild(store: Store, indexer: Indexer) -> None:
    await store.recall_index.rebuild(SPACE)
    await indexer.index_space(SPACE)


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
