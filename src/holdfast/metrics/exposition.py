"""The text format that Prometheus reads, version 0.0.4."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.metrics.instruments import Family, number

MEDIA_TYPE: Final = "text/plain; version=0.0.4"

_MEANING: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def written(families: Iterable[Family[Any]]) -> str:
    """Write down all that was counted."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family[Any]) -> Iterator[str]:
    yield f"# HELP {family.name} {family.meaning.translate(_MEANING)}"
    yield f"# TYPE {family.name} {family.kind}"
    for values, instrument in family:
        labels = dict(zip(family.labels, values, strict=True))
        for sample in instrument.samples():
            yield f"{family.name}{sample.suffix}{_written({**labels, **sample.labels})} {number(sample.value)}"


def _written(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_LABEL)}"' for name, value in labels.items()) + "}"
