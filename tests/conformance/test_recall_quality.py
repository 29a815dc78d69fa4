"""What recall finds on the data sets, on both databases alike; `HOLDFAST_RECALL_DATA` names their folder."""

import os
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap import open_store
from holdfast.memory.static_vectors import static_vectors
from holdfast.models.embedders import OnnxEmbedder
from tests.support.minilm import minilm_folder
from tests.support.postgres import PostgresServer
from tests.support.recall_data import NAMES, VARIABLE, RecallMeasure, data_folder

# The least share of the evidence among the first ten, and the least mean reciprocal rank.
STATIC: Final = {"locomo": (0.78, 0.56), "own_en": (0.36, 0.36), "own_ja": (0.72, 0.48), "jsquad": (0.96, 0.89)}
ENCODER: Final = {"locomo": (0.80, 0.56), "own_en": (0.68, 0.48)}
LEXICAL: Final = {"locomo": (0.75, 0.56), "own_ja": (0.48, 0.42)}
EVERY: Final = {"jsquad": 5}
"""Of the largest set every fifth query is asked here; `make bench recall` asks all of them."""
MIN_EQUAL: Final = 0.99

pytestmark = pytest.mark.skipif(data_folder() is None, reason=f"`{VARIABLE}` does not name a folder with the data")


@pytest.fixture(scope="module")
def data() -> Path:
    assert static_vectors().notice is None, "build the Japanese vectors with `make japanese`"
    folder = data_folder()
    assert folder is not None
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.timeout(900)
async def test_recall_finds_the_evidence_on_both_databases_alike(
    data: Path, tmp_path: Path, postgres: PostgresServer, name: str
) -> None:
    async with open_store(tmp_path / "recall.db") as store:
        found = await RecallMeasure(store).measure(data, name, every=EVERY.get(name, 1))
    assert found.recall_10 >= STATIC[name][0]
    assert found.mrr >= STATIC[name][1]
    database = f"recall_{name}_{os.getpid()}"
    async with open_store(await postgres.create_database(database)) as store:
        other = await RecallMeasure(store).measure(data, name, every=EVERY.get(name, 1))
    equal = [len(set(best) & set(other.best[query])) / len(best) for query, best in found.best.items() if best]
    assert sum(equal) / len(equal) >= MIN_EQUAL
    await postgres.drop_database(database)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEXICAL)
async def test_recall_by_words_alone(data: Path, tmp_path: Path, name: str) -> None:
    async with open_store(tmp_path / "recall.db") as store:
        found = await RecallMeasure(store, lexical=True).measure(data, name)
    assert found.recall_10 >= LEXICAL[name][0]
    assert found.mrr >= LEXICAL[name][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODER)
async def test_recall_with_a_sentence_encoder(data: Path, tmp_path: Path, name: str) -> None:
    embedder = OnnxEmbedder(minilm_folder(Path(".venv")))
    async with open_store(tmp_path / "recall.db") as store:
        found = await RecallMeasure(store, embedder=embedder).measure(data, name)
    assert found.recall_10 >= ENCODER[name][0]
    assert found.mrr >= ENCODER[name][1]
