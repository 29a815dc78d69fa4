"""Counters, gauges and histograms with labels, and their Prometheus text format (version 0.0.4).

There are no locks: one thread changes an instrument, and a reader may see a slightly older or newer value. Code
that counts often keeps the instrument; finding one by its labels is one dictionary lookup.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

MAX_SERIES: Final = 100
"""How many values of its first label a family tells apart, if it does not say so."""
OTHER_LABEL: Final = "other"

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = tuple[str, ...]


class Sample(msgspec.Struct, frozen=True):
    """One number as it is written down: what its name ends with, labels of its own, and its value."""

    suffix: str
    labels: Mapping[str, str]
    value: float


class Instrument(Protocol):
    """Something that is counted with."""

    def samples(self) -> Iterator[Sample]:
        """Yield what is to be written down of it."""


T = TypeVar("T", bound=Instrument)


class Number:
    """A number that goes up, or up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Change it."""
        self.value += amount

    def samples(self) -> Iterator[Sample]:
        """Yield the number."""
        yield Sample("", {}, self.value)


class Histogram:
    """How often a value was at most as large as each of `bounds`."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Take note of a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        """Yield how many values were at most so large, for each bound, and their sum and count."""
        counts, so_far = list(self._counts), 0
        for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
            so_far += count
            yield Sample("_bucket", {"le": format_number(bound)}, so_far)
        yield Sample("_sum", {}, self._sum)
        yield Sample("_count", {}, so_far)


class MetricFamily(Generic[T]):
    """Instruments of one name, one for each combination of labels.

    Only the first label may have values that others choose, such as the name of a model: of those beyond `most` all
    are counted together.
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
        """Return the instrument with these values of its labels."""
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
    """Write a number as the text format has it."""
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


PROMETHEUS_MEDIA_TYPE: Final = "text/plain; version=0.0.4"

_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render_metrics(families: Iterable[MetricFamily[Any]]) -> str:
    """Write down all that was counted."""
    return "".join(f"{line}\n" for family in families for line in _family_lines(family))


def _family_lines(family: MetricFamily[Any]) -> Iterator[str]:
    yield f"# HELP {family.name} {family.description.translate(_HELP_ESCAPES)}"
    yield f"# TYPE {family.name} {family.kind}"
    for values, instrument in family:
        labels = dict(zip(family.labels, values, strict=True))
        for sample in instrument.samples():
            series = f"{family.name}{sample.suffix}{_format_labels({**labels, **sample.labels})}"
            yield f"{series} {format_number(sample.value)}"


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in labels.items()) + "}"
