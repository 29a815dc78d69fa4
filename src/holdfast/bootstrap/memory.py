"""Recall of a workspace: its embedder, its search, and the loop that keeps its index current."""

import asyncio
import time
from pathlib import Path
from typing import Final

from holdfast.domain.ids import SpaceId
from holdfast.engine.loops import WakeEvent, run_forever
from holdfast.engine.watcher import Watcher
from holdfast.memory.indexing import Analysis, Indexer, Redact
from holdfast.memory.outlines import Outliner
from holdfast.memory.recall import SpaceRecall
from holdfast.memory.static_vectors import StaticVectors, static_vectors
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, WakeHint
from holdfast.ports.memory import Embedder
from holdfast.ports.model import Models
from holdfast.ports.runtime import Clock
from holdfast.store.store import Store
from holdfast.workspace.settings import RecallSettings

MIN_INDEX_INTERVAL_SECONDS: Final = 0.5
"""The shortest time between two rounds: what is not indexed yet is found anyway."""
MAX_WORD_SECONDS: Final = 600.0
"""How long a word that was said may stay in memory once it is forgotten: stems and tokens are kept by word."""
BUSY_CORE_SHARE: Final = 0.3
"""A process that uses more of a core indexes only spaces that were searched lately. Indexing itself uses a fifth."""


class WorkspaceRecall:
    """Recall over the store of a workspace."""

    def __init__(
        self,
        store: Store,
        settings: RecallSettings,
        *,
        folder: Path,
        redact: Redact,
        clock: Clock,
        watcher: Watcher,
        models: Models,
    ) -> None:
        """Search the store with the embedder of `settings`; a relative folder in them is one of `folder`."""
        tables = static_vectors()
        analysis = Analysis(_embedder(settings, tables, folder), tables, redact)
        self.search = SpaceRecall(store.recall_index, analysis, clock)
        self._indexer = Indexer(store.recall_index, analysis)
        self._watcher = watcher
        self._outliner = Outliner(
            store.outlines, models=models, model=settings.outline_model, redact=redact, folder=str(folder)
        )
        self._wake = WakeEvent(min_interval=MIN_INDEX_INTERVAL_SECONDS)
        self._indexed = asyncio.Event()
        self._load = ProcessLoad()
        self._words_dropped_at = time.monotonic()

    async def run(self) -> None:
        """Index what is said until cancelled; no run waits for it."""
        with self._watcher.listen(self._on_wake):
            await run_forever("indexing for recall", self._index_once)

    def _on_wake(self, hint: WakeHint) -> None:
        if hint.runs or hint.everything:
            self._wake.set()

    async def _index_once(self) -> None:
        await self._wake.wait(seconds=WAKEUP_FALLBACK_SECONDS)
        await self._indexer.run_once(may_index=self._may_index)
        self._indexed.set()
        await self.search.evict_stale()
        if time.monotonic() - self._words_dropped_at >= MAX_WORD_SECONDS:
            self._words_dropped_at = time.monotonic()
            self.search.analysis.drop_words()

    async def run_outlines(self) -> None:
        """Keep the outlines of threads current until cancelled, after each round of the index."""
        await run_forever("outlining threads", self._outline_once)

    async def _outline_once(self) -> None:
        await self._indexed.wait()
        self._indexed.clear()
        await self._outliner.run_once()

    def _may_index(self, space: SpaceId) -> bool:
        return self.search.searched_lately(space) or self._load.core_share() < BUSY_CORE_SHARE


class ProcessLoad:
    """The processor time that this process uses."""

    def __init__(self) -> None:
        self._at, self._used, self._share = time.monotonic(), time.process_time(), 0.0

    def core_share(self) -> float:
        """Return the cores that the process used over the last `MIN_INDEX_INTERVAL_SECONDS` or longer."""
        seconds = time.monotonic() - self._at
        if seconds >= MIN_INDEX_INTERVAL_SECONDS:
            used = time.process_time()
            self._share = (used - self._used) / seconds
            self._at, self._used = self._at + seconds, used
        return self._share


def _embedder(settings: RecallSettings, tables: StaticVectors, folder: Path) -> Embedder | None:
    """Return the embedder that the settings name; the libraries of the others are imported only for them."""
    if settings.embedder == "off":
        return None
    if settings.embedder == "static":
        return tables
    from holdfast.models.embedders import open_embedder

    return open_embedder(
        settings.embedder,
        url=settings.embedder_url,
        dims=settings.embedder_dims,
        key_variable=settings.embedder_key,
        folder=folder,
    )
