"""Ids of traces and spans that derive from those of runs.

A tree of runs is one trace, wherever and however often its runs are taken up: every process finds the same ids, and
nothing of it is stored. The first work on a run has a span id that derives from the run, so that whatever comes later
(the run when it is taken up again, a child) finds its parent.
"""

from hashlib import sha256

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from holdfast.domain.ids import RunId, SpaceId


def trace_of(space: SpaceId, root: RunId) -> int:
    """Return the id of the trace of a tree of runs."""
    return int.from_bytes(_digest("trace", space, root)[:16]) or 1


def span_of(space: SpaceId, run: RunId) -> int:
    """Return the id of the span of the first work on a run."""
    return int.from_bytes(_digest("span", space, run)[:8]) or 1


class ChosenIds(RandomIdGenerator):
    """Random ids, unless the next ones are chosen."""

    def __init__(self) -> None:
        self._trace: int | None = None
        self._span: int | None = None

    def choose(self, *, trace: int, span: int) -> None:
        """Say which ids the next span has; the trace only counts for a span without a parent."""
        self._trace, self._span = trace, span

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        chosen, self._trace = self._trace, None
        return super().generate_trace_id() if chosen is None else chosen

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        chosen, self._span, self._trace = self._span, None, None
        return super().generate_span_id() if chosen is None else chosen


def _digest(*parts: str) -> bytes:
    return sha256("/".join(parts).encode()).digest()
