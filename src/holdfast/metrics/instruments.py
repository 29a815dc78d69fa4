"""Counters, gauges and histograms with labels, and their Prometheus text format (version 0.0.4).

There are no locks: one thread changes an instrument, and a reader may see a slightly older or newer value. Code
that counts often keeps the instrument; finding one by its labels is one dictionary lookup.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

MAX_SERIES: Final = 100
"""The default limit for distinct values of a family's first label."""
OTHER_LABEL: Final = "other"

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = tuple[str, ...]


class Sample(msgspec.Struct, frozen=True):
    """One exported number: the suffix of its name, its own labels, and its value."""

    suffix: str
    labels: Mapping[str, str]
    value: float


class Instrument(Protocol):
    """A counter, gauge or histogram."""

    def samples(self) -> Iterator[Sample]:
        """Yield its samples."""


T = TypeVar("T", bound=Instrument)


class Number:
    """The value of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Add to the value."""
        self.value += amount

    def samples(self) -> Iterator[Sample]:
        """Yield the value."""
        yield Sample("", {}, self.value)


class Histogram:
    """The distribution of observed values over buckets with upper `bounds`."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value in its bucket."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        """Yield the cumulative count of each bucket, and the sum and count of all values."""
        counts, total = list(self._counts), 0
        for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
            total += count
            yield Sample("_bucket", {"le": format_number(bound)}, total)
        yield Sample("_sum", {}, self._sum)
        yield Sample("_count", {}, total)


class MetricFamily(Generic[T]):
    """Instruments of one name, one for each combination of labels.

    Only the first label may have unbounded values, such as the name of a model: values beyond `max_series` are counted
    together as `other`.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        kind: Kind,
        labels: Labels = (),
        make: Callable[[], T],
        max_series: int = MAX_SERIES,
    ) -> None:
        self.name = name
        self.description = description
        self.kind = kind
        self.labels = labels
        self._make = make
        self._max_series = max_series
        self._series: dict[Labels, T] = {}
        self._first_values: set[str] = set()

    def of(self, *values: str) -> T:
        """Return the instrument with these label values."""
        return self._series.get(values) or self._add(values)

    def __iter__(self) -> Iterator[tuple[Labels, T]]:
        return iter(list(self._series.items()))

    def _add(self, values: Labels) -> T:
        if values and values[0] not in self._first_values:
            if len(self._first_values) >= self._max_series:
                values = (OTHER_LABEL, *values[1:])
            self._first_values.add(values[0])
        return self._series.setdefault(values, self._make())


def format_number(value: float) -> str:
    """Return a number in the Prometheus text format."""
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


PROMETHEUS_MEDIA_TYPE: Final = "text/plain; version=0.0.4"

_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render_metrics(families: Iterable[MetricFamily[Any]]) -> str:
    """Return metrics in the Prometheus text format."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.description.translate(_HELP_ESCAPES)}\n")
        lines.append(f"# TYPE {family.name} {family.kind}\n")
        for values, instrument in family:
            family_labels = dict(zip(family.labels, values, strict=True))
            for sample in instrument.samples():
                labels = {**family_labels, **sample.labels}
                pairs = ",".join(f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in labels.items())
                series = f"{family.name}{sample.suffix}" + (f"{{{pairs}}}" if pairs else "")
                lines.append(f"{series} {format_number(sample.value)}\n")
    return "".join(lines)
