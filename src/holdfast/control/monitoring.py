"""Health, readiness and Prometheus metrics of a server process."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.metrics.instruments import MetricFamily, Number, render_metrics
from holdfast.metrics.meters import Meters, gauge
from holdfast.ports.queue import LiveRunCounts, RunCounts
from holdfast.ports.spaces import Spaces

STORE_TIMEOUT_SECONDS: Final = 2.0
"""Seconds in which a store that is well answers."""


class HealthStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How it is."""

    status: str


class ServerVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What runs here."""

    name: str
    version: str


class HealthControl:
    """The state of a process."""

    def __init__(self, spaces: Spaces, *, version: str) -> None:
        self.version = ServerVersion(name="holdfast", version=version)
        self._spaces = spaces
        self._closing = False

    def close(self) -> None:
        """Say from now on that the process takes no more work."""
        self._closing = True

    async def ready(self) -> HealthStatus:
        """Return if there is a store that answers and the process is to stay; else raise `Unavailable`."""
        if self._closing:
            raise Unavailable("the server is shutting down: ask another one, or come back in a moment")
        try:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                await self._spaces.get(DEFAULT_SPACE)
        except TimeoutError as exc:
            raise Unavailable(f"the store did not answer in {STORE_TIMEOUT_SECONDS:g} seconds") from exc
        return HealthStatus(status="ready")


METRICS_STORE_TIMEOUT_SECONDS: Final = 2.0
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
            async with asyncio.timeout(METRICS_STORE_TIMEOUT_SECONDS):
                return await self._census.live()
        except (TimeoutError, Unavailable):
            return None

    def _now(self, live: LiveRunCounts | None) -> Iterator[MetricFamily[Any]]:
        yield _gauge_of_one("holdfast_build_info", "The version that runs here.", 1, version=self._version)
        yield _gauge_of_one("holdfast_store_up", "Whether the store answers.", int(live is not None))
        if live is not None:
            yield from _run_gauges(live)


def _run_gauges(live: LiveRunCounts) -> Iterator[MetricFamily[Number]]:
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
    yield _gauge_of_one("holdfast_queue_oldest_seconds", oldest, live.longest_wait_seconds)


def _gauge_of_one(name: str, meaning: str, value: float, **labels: str) -> MetricFamily[Number]:
    family = gauge(name, meaning, labels=tuple(labels))
    family.of(*labels.values()).add(value)
    return family
