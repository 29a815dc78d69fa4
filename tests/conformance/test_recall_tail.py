"""The tail of recall: what is not indexed yet is read once, and found as if it were indexed."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.ids import ThreadId
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallQuery
from holdfast.memory.indexing import Analysis
from holdfast.memory.recall import SpaceRecall
from holdfast.memory.static_vectors import StaticVectors
from holdfast.ports.memory import Embedder
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import assistant, user
from tests.conformance.conftest import SPACE
from tests.conformance.test_recall import CAT, DOG, LetterEmbedder, Recalling, say


@pytest.fixture
async def recalling(store: Store, clock: HeldClock) -> Recalling:
    recalling = Recalling(store, clock)
    await recalling.indexer.index_space(SPACE)
    return recalling


async def say_again(store: Store, thread: ThreadId, *said: NewMessage) -> None:
    """Say more on a thread, beside its other runs."""
    await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=said))


async def test_nothing_is_indexed_before_the_first_search_of_a_space(store: Store, clock: HeldClock) -> None:
    recalling = Recalling(store, clock)
    await say(store, CAT)
    await recalling.indexer.run_once()
    assert (await recalling.recall.status(SPACE)).pending == 1
    assert await recalling.texts("cat") == [CAT]
    await recalling.indexer.run_once()
    assert (await recalling.recall.status(SPACE)).pending == 0
    assert await recalling.texts("cat") == [CAT]


async def test_a_tail_that_grew_with_searches_scores_as_one_that_is_read_at_once(
    store: Store, clock: HeldClock, recalling: Recalling
) -> None:
    thread = await say(store, CAT, "Where does the cat sleep?")
    for step in range(6):
        await recalling.find("cat printer")
        await say_again(store, thread, user(f"On the printer, said {step} cats."), assistant(DOG))
        await say(store, f"Another cat, number {step}.")
        if step in (2, 4):  # the index takes a part of the tail
            batch = await store.recall_index.pending(SPACE, limit=2 * step - 1)
            assert batch is not None
            analysis = recalling.indexer.analysis
            passages = await analysis.embed(analysis.split(batch.sources))
            assert await store.recall_index.add(SPACE, batch, passages)
        grown, fresh = [
            {hit.id: hit for hit in (await each.find("cat printer", limit=50)).hits if hit.score > 0.01}
            for each in (recalling, Recalling(store, clock))
        ]
        for part in ("lexical", "vector", "tokens", "neighbours"):
            ours, theirs = ({id: getattr(hit.parts, part) for id, hit in each.items()} for each in (grown, fresh))
            assert ours == pytest.approx(theirs, abs=1e-4), part
        assert any(hit.parts.neighbours for hit in grown.values())


async def test_a_tail_that_is_too_long_is_searched_from_its_end_and_says_so(
    store: Store, clock: HeldClock, recalling: Recalling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.memory.recall.MAX_TAIL_MESSAGES", 4)
    old = await say(store, CAT)
    for number in range(5):
        await say(store, f"Dog number {number}.")
    found = await recalling.find("cat")
    assert CAT not in [hit.text for hit in found.hits]
    assert found.notice is not None and "2 older messages are not indexed yet" in found.notice
    clock.tick(timedelta(seconds=1))
    await say_again(store, old, user("The cat is back."))
    assert "The cat is back." in await recalling.texts("cat")


@pytest.mark.parametrize("embedder", ["static", "letters", "off"])
async def test_the_first_search_reads_the_tables_off_the_event_loop(
    store: Store, clock: HeldClock, embedder: str
) -> None:
    """With any embedder tokens are compared, which are rows of the tables."""
    tables = WatchedTables()
    choices: dict[str, Embedder | None] = {"static": tables, "letters": LetterEmbedder(), "off": None}
    recall = SpaceRecall(store.recall_index, Analysis(choices[embedder], tables, lambda text: text), clock)
    await say(store, CAT, DOG)
    found = await recall.search(SPACE, RecallQuery(text="the cat"))
    assert [hit.text for hit in found.hits][:1] == [CAT]
    assert set(tables.readers) == {"_tokenizer", "_english", "_japanese"} - tables.missing
    assert threading.get_ident() not in tables.readers.values()


class WatchedTables(StaticVectors):
    """Tables that note which thread reads each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: dict[str, int] = {}
        self.missing = {
            *(["_tokenizer", "_english"] if self._folder is None else []),
            *(["_japanese"] if self._japanese_words is None else []),
        }

    def __getattribute__(self, name: str) -> Any:
        if name in ("_tokenizer", "_english", "_japanese"):
            self.readers.setdefault(name, threading.get_ident())
        return super().__getattribute__(name)
