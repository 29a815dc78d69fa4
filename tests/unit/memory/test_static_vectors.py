"""Static vectors: read off the event loop, and without a word of a forgotten text in memory."""

import threading
from typing import Any

import pytest

from holdfast.memory import analyser
from holdfast.memory.indexing import Analysis
from holdfast.memory.static_vectors import StaticVectors


def test_no_word_is_kept_once_words_are_dropped() -> None:
    tables = StaticVectors()
    analysis = Analysis(tables, tables, lambda text: text)
    before = tables.tokens("zebra7731 opens").tolist()
    assert analyser.terms("zebra7731 opens") == ["zebra7731", "open"]
    assert analyser._stem.cache_info().currsize
    analysis.drop_words()
    assert analyser._stem.cache_info().currsize == 0
    assert tables.tokens("zebra7731 opens").tolist() == before


def test_dropping_words_reads_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = StaticVectors()

    def fail(*_: Any) -> None:
        raise AssertionError("the tables were read")

    monkeypatch.setattr(StaticVectors, "tokens", fail)
    tables.drop_words()
    assert "_tokenizer" not in tables.__dict__


async def test_the_tables_are_first_read_in_a_thread() -> None:
    readers: list[int] = []

    class Watched(StaticVectors):
        def tokens(self, text: str) -> Any:
            readers.append(threading.get_ident())
            return super().tokens(text)

    tables = Watched()
    await tables.embed([])
    assert readers and threading.get_ident() not in readers
    assert {"_tokenizer", "_english"} <= tables.__dict__.keys() or tables.notice is not None
