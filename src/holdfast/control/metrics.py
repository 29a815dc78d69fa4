"""What an operator can read of a process, in numbers."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from holdfast.domain.errors import Unavailable
from holdfast.metrics.instruments import MetricFamily, Number, render_metrics
from holdfast.metrics.meters import Meters, gauge
from holdfast.ports.queue import LiveRunCounts, RunCounts

PATIENCE: Final = 2.0
"""Seconds in which a store that is well answers: without it, the rest is told all the same."""


class MetricsControl:
    """The numbers of a process, and of the store that it shares with others."""

    def __init__(self, meters: Meters, census: RunCounts, *, version: str) -> None:
        self._meters = meters
        self._census = census
        self._version = version

    async def read(self) -> str:
        """Return all numbers, as Prometheus reads them."""
        return render_metrics([*self._meters, *self._now(await self._live())])

    async def _live(self) -> LiveRunCounts | None:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._census.live()
        except (TimeoutError, Unavailable):
            return None

    def _now(self, live: LiveRunCounts | None) -> Iterator[MetricFamily[Any]]:
        yield _single("holdfast_build_info", "The version that runs here.", 1, version=self._version)
        yield _single("holdfast_store_up", "Whether the store answers.", int(live is not None))
        if live is not None:
            yield from _of_runs(live)


def _of_runs(live: LiveRunCounts) -> Iterator[MetricFamily[Number]]:
    runs = gauge("holdfast_runs", "Runs in the store that have not ended, by status.", labels=("status",))
    runs.of("pending").add(live.pending)
    runs.of("queued").add(live.ready + live.delayed)
    runs.of("running").add(live.running)
    runs.of("waiting").add(live.waiting)
    yield runs
    depth = gauge("holdfast_queue_depth", "Queued runs: `ready` may be claimed now.", labels=("state",))
    depth.of("ready").add(live.ready)
    depth.of("delayed").add(live.delayed)
    yield depth
    oldest = "Seconds that the run has been queued which is ready for longest."
    yield _single("holdfast_queue_oldest_seconds", oldest, live.longest_wait)


def _single(name: str, meaning: str, value: float, **labels: str) -> MetricFamily[Number]:
    family = gauge(name, meaning, labels=tuple(labels))
    family.of(*labels.values()).add(value)
    return family
