"""Health, readiness and Prometheus metrics of a server process."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from holdfast.domain.errors import OutcomeUnknown, Unavailable
from holdfast.metrics.instruments import MetricFamily, Number, render_metrics
from holdfast.metrics.meters import Meters, gauge
from holdfast.ports.queue import ActiveRunCounts, RunCounts, StoreHealth

STORE_TIMEOUT_SECONDS: Final = 2.0
"""Seconds in which a healthy store responds."""
WRITE_CHECK_INTERVAL_SECONDS: Final = 2.0
"""Seconds for which the result of a write is remembered: `/ready` needs no key, so anybody may ask for it."""


class HealthStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a server process."""

    status: str


class ServerVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The name and version of the server."""

    name: str
    version: str


class HealthControl:
    """The readiness and version of a server process."""

    def __init__(
        self, store_health: StoreHealth, *, version: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.version = ServerVersion(name="holdfast", version=version)
        self._store_health = store_health
        self._monotonic = monotonic
        self._closing = False
        self._checking = asyncio.Lock()
        self._next_check = float("-inf")
        self._store_error: Unavailable | None = None

    def close(self) -> None:
        """Report the process as not ready from now on."""
        self._closing = True

    async def ready(self) -> HealthStatus:
        """Return the status, or raise `Unavailable` if the process shuts down or the store takes no writes."""
        if self._closing:
            raise Unavailable("the server is shutting down: use another one, or retry in a moment")
        async with self._checking:  # concurrent requests share one write
            if self._monotonic() >= self._next_check:
                self._store_error = await self._check_store()
                self._next_check = self._monotonic() + WRITE_CHECK_INTERVAL_SECONDS
        if self._store_error is not None:
            raise type(self._store_error)(self._store_error.message)
        return HealthStatus(status="ready")

    async def _check_store(self) -> Unavailable | None:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                await self._store_health.check_write()
        except TimeoutError:
            message = f"the store did not respond in {STORE_TIMEOUT_SECONDS:g} seconds: check the database and its disk"
            return Unavailable(message)
        except OutcomeUnknown:
            return Unavailable("the store cannot write: the disk fails; check it, and the limits of the process")
        except Unavailable as exc:
            return exc
        return None


class MetricsControl:
    """The metrics of a process and of the store that it shares with others."""

    def __init__(self, meters: Meters, run_counts: RunCounts, *, version: str) -> None:
        self._meters = meters
        self._run_counts = run_counts
        self._version = version

    async def read(self) -> str:
        """Return all metrics in the Prometheus text format; without run counts if the store does not respond."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                counts = await self._run_counts.active()
        except (TimeoutError, Unavailable):
            counts = None
        families: list[MetricFamily[Any]] = [
            *self._meters,
            _single_gauge("holdfast_build_info", "The version that runs here.", 1, version=self._version),
            _single_gauge("holdfast_store_up", "Whether the store responds.", int(counts is not None)),
        ]
        if counts is not None:
            families += _run_gauges(counts)
        return render_metrics(families)


def _run_gauges(counts: ActiveRunCounts) -> Iterator[MetricFamily[Number]]:
    runs = gauge("holdfast_runs", "Runs in the store that have not ended, by status.", labels=("status",))
    runs.of("pending").add(counts.pending)
    runs.of("queued").add(counts.ready + counts.delayed)
    runs.of("running").add(counts.running)
    runs.of("waiting").add(counts.waiting)
    yield runs
    depth = gauge("holdfast_queue_depth", "Queued runs: `ready` may be claimed now.", labels=("state",))
    depth.of("ready").add(counts.ready)
    depth.of("delayed").add(counts.delayed)
    yield depth
    help_text = "Seconds that the oldest ready run has been queued."
    yield _single_gauge("holdfast_queue_oldest_seconds", help_text, counts.longest_wait_seconds)


def _single_gauge(name: str, help_text: str, value: float, **labels: str) -> MetricFamily[Number]:
    family = gauge(name, help_text, labels=tuple(labels))
    family.of(*labels.values()).add(value)
    return family
