"""Health, readiness and Prometheus metrics of a server process."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.metrics.instruments import MetricFamily, Number, render_metrics
from holdfast.metrics.meters import Meters, gauge
from holdfast.ports.queue import ActiveRunCounts, RunCounts
from holdfast.ports.spaces import Spaces

STORE_TIMEOUT_SECONDS: Final = 2.0
"""Seconds in which a healthy store responds."""


class HealthStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a server process."""

    status: str


class ServerVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The name and version of the server."""

    name: str
    version: str


class HealthControl:
    """The readiness and version of a server process."""

    def __init__(self, spaces: Spaces, *, version: str) -> None:
        self.version = ServerVersion(name="holdfast", version=version)
        self._spaces = spaces
        self._closing = False

    def close(self) -> None:
        """Report the process as not ready from now on."""
        self._closing = True

    async def ready(self) -> HealthStatus:
        """Return the status, or raise `Unavailable` if the process shuts down or the store does not respond."""
        if self._closing:
            raise Unavailable("the server is shutting down: use another one, or retry in a moment")
        try:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                await self._spaces.get(DEFAULT_SPACE)
        except TimeoutError as exc:
            raise Unavailable(f"the store did not respond in {STORE_TIMEOUT_SECONDS:g} seconds") from exc
        return HealthStatus(status="ready")


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
