"""All metrics of a process, under their public Prometheus names."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from holdfast.metrics.instruments import MAX_SERIES, Histogram, Labels, MetricFamily, Number, T

CALL_SECONDS_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""For model calls and tool calls."""
FAST_SECONDS_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""For commits and HTTP responses."""
BATCH_SIZE_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MAX_ROUTES: Final = 1000
"""More than the API has: routes are never counted as `other`."""


class Meters:
    """All instruments of a process."""

    def __init__(self) -> None:
        self._families: list[MetricFamily[Any]] = []
        self.claimed = self._counter("holdfast_runs_claimed_total", "Runs that workers of this process claimed.").of()
        self.ended = self._counter("holdfast_runs_ended_total", "Runs that this process ended, by status.", "status")
        self.leases_expired = self._counter(
            "holdfast_leases_expired_total", "Leases of dead or stalled workers that this process expired."
        ).of()
        self.leases_lost = self._counter(
            "holdfast_leases_lost_total", "Leases that workers of this process lost to others."
        ).of()
        self.commits = self._counter("holdfast_commits_total", "Commits to the logs of runs, by outcome.", "outcome")
        self.commit_seconds = self._histogram(
            "holdfast_commit_seconds",
            "Seconds from the request for a commit until it was on disk.",
            bounds=FAST_SECONDS_BUCKETS,
        ).of()
        self.batch_size = self._histogram(
            "holdfast_commit_batch_size", "Commits that were written together.", bounds=BATCH_SIZE_BUCKETS
        ).of()
        self.model_seconds = self._histogram(
            "holdfast_model_call_seconds", "Seconds that model calls took, by outcome.", "model", "outcome"
        )
        self.tokens = self._counter(
            "holdfast_model_tokens_total", "Tokens that providers reported, by kind.", "model", "kind"
        )
        self.cost = self._counter("holdfast_model_cost_usd_total", "Dollars that model calls cost.", "model")
        self.unpriced = self._counter(
            "holdfast_model_calls_unpriced_total", "Model calls whose price is not known; no cost counts them.", "model"
        )
        self.tool_seconds = self._histogram(
            "holdfast_tool_call_seconds", "Seconds that tools ran, by outcome.", "tool", "outcome"
        )
        self.loop_stalls = self._counter(
            "holdfast_event_loop_stalls_total", "Times that the event loop used too much CPU without a turn."
        ).of()
        self.workers = self._register(gauge("holdfast_workers", "Runs that this process executes at a time, at most."))
        self.streams = self._register(
            gauge("holdfast_stream_clients", "Streams that are open now, by transport.", labels=("transport",))
        )
        self.requests = self._counter(
            "holdfast_http_requests_total",
            "Requests that got a response.",
            "route",
            "method",
            "status",
            max_series=MAX_ROUTES,
        )
        self.request_seconds = self._histogram(
            "holdfast_http_request_seconds",
            "Seconds until the response to a request began.",
            "route",
            "method",
            bounds=FAST_SECONDS_BUCKETS,
            max_series=MAX_ROUTES,
        )

    def __iter__(self) -> Iterator[MetricFamily[Any]]:
        return iter(self._families)

    def _counter(self, name: str, description: str, *labels: str, max_series: int = MAX_SERIES) -> MetricFamily[Number]:
        return self._register(
            MetricFamily(name, description, kind="counter", labels=labels, make=Number, max_series=max_series)
        )

    def _histogram(
        self,
        name: str,
        description: str,
        *labels: str,
        bounds: Sequence[float] = CALL_SECONDS_BUCKETS,
        max_series: int = MAX_SERIES,
    ) -> MetricFamily[Histogram]:
        make = partial(Histogram, bounds)
        return self._register(
            MetricFamily(name, description, kind="histogram", labels=labels, make=make, max_series=max_series)
        )

    def _register(self, family: MetricFamily[T]) -> MetricFamily[T]:
        self._families.append(family)
        return family


def gauge(name: str, description: str, *, labels: Labels = ()) -> MetricFamily[Number]:
    """Return a gauge."""
    return MetricFamily(name, description, kind="gauge", labels=labels, make=Number)
