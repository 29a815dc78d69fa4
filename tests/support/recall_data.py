"""The data that recall is measured with, read from the folder that `HOLDFAST_RECALL_DATA` names.

| file | what it is | from |
|---|---|---|
| `locomo.json.gz` | two people over months | snap-research/LoCoMo, CC BY-NC 4.0 |
| `own_en.json.gz` | a person and an assistant, among turns of LoCoMo | written for Holdfast |
| `own_ja.json.gz` | the same in Japanese, among nu-dialogue/real-persona-chat, CC BY-SA 4.0 | written for Holdfast |
| `jsquad.json.gz` | Japanese passages and questions | yahoojapan/JGLUE, JSQuAD, CC BY-SA 4.0 |

None of it is committed: each file is a list of spaces with items, and queries with the items that answer them.
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.domain.ids import MessageId, SpaceId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallQuery
from holdfast.domain.thread import NewThread
from holdfast.memory.indexing import Analysis, Indexer
from holdfast.memory.recall import SpaceRecall
from holdfast.memory.static_vectors import static_vectors
from holdfast.ports.memory import Embedder
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock

VARIABLE: Final = "HOLDFAST_RECALL_DATA"
NAMES: Final = ("locomo", "own_en", "own_ja", "jsquad")
_UNNAMED: Final = ("user", "assistant", "")
_MESSAGES_PER_RUN: Final = 900


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the evidence: among the first five, the first ten, and the mean reciprocal rank."""

    recall_5: float
    recall_10: float
    mrr: float
    best: dict[str, list[str]]
    """The first ten of each query."""


def data_folder() -> Path | None:
    """Return the folder with the data, if it is set."""
    folder = os.environ.get(VARIABLE)
    return Path(folder) if folder else None


class RecallMeasure:
    """Fills spaces of a store with a data set, and measures what recall finds in them."""

    def __init__(self, store: Store, *, embedder: Embedder | None = None, lexical: bool = False) -> None:
        """Measure with the default embedder, another one, or none."""
        tables = static_vectors()
        analysis = Analysis(None if lexical else embedder or tables, tables, lambda text: text)
        self._store = store
        self.recall = SpaceRecall(store.recall_index, analysis, HeldClock())
        self.indexer = Indexer(store.recall_index, analysis)

    async def measure(self, folder: Path, name: str, *, every: int = 1) -> Measured:
        """Index a data set and ask its queries, or every so many of them."""
        found_5 = found_10 = ranks = 0.0
        best: dict[str, list[str]] = {}
        for number, data in enumerate(json.loads(gzip.decompress((folder / f"{name}.json.gz").read_bytes()))):
            space = SpaceId(f"{name}-{number}")
            items = await self._fill(space, data["items"])
            await self.indexer.index_space(space)
            for query in [each for each in data["queries"] if each["kind"] != "adversarial"][::every]:
                result = await self.recall.search(space, RecallQuery(text=query["q"], limit=100))
                order = [items[hit.id] for hit in result.hits]
                wanted = set(query["evidence"])
                found_5 += len(wanted & set(order[:5])) / len(wanted)
                found_10 += len(wanted & set(order[:10])) / len(wanted)
                ranks += next((1 / rank for rank, item in enumerate(order, start=1) if item in wanted), 0.0)
                best[f"{number}.{query['q']}"] = order[:10]
        count = len(best)
        return Measured(recall_5=found_5 / count, recall_10=found_10 / count, mrr=ranks / count, best=best)

    async def _fill(self, space: SpaceId, items: list[dict[str, Any]]) -> dict[str, str]:
        """Store the items as messages, and return their ids by message id."""
        await self._store.spaces.create(space, name=space)
        threads: dict[str, list[dict[str, Any]]] = {}
        for item in items:
            threads.setdefault(item["thread"], []).append(item)
        names: dict[str, str] = {}
        for number, said in enumerate(threads.values()):
            thread = await self._store.threads.create(space, NewThread())
            messages: list[NewMessage] = []
            for item in sorted(said, key=lambda each: int(each["seq"])):
                name = MessageId(f"m{number}-{len(messages)}")
                names[name] = item["id"]
                speaker = None if item["speaker"] in _UNNAMED else item["speaker"]
                messages.append(NewMessage(role=Role(item["role"]), content=item["text"], id=name, created_by=speaker))
            for at in range(0, len(messages), _MESSAGES_PER_RUN):
                part = messages[at : at + _MESSAGES_PER_RUN]
                await self._store.runs.create(space, NewRun(thread=thread.id, base=None, messages=part))
        return names
