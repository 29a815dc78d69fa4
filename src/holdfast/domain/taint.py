"""Taint: a run has read what others wrote, and may have been told by it what to do.

It is a value of the run, so that it goes over to the runs that continue it, which read the same conversation; children
begin with it, and whoever reads what a tainted run answers is tainted by that. It never goes away again.

What counts for a call is what the model had read when it asked for it: a page that was fetched beside the call, or
after it, has not suggested it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.untrusted import as_name

TAINT: Final = "taint"
"""The value of a run that says what it has read of others."""
MOST: Final = 20
"""Sources that are kept; one is enough to be tainted."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whose words are in the conversation."""

    name: str
    """Such as `web:example.com`, or `tool:` and its name."""
    at: int | None = None
    """The sequence of the message that asked for them; null if they came in otherwise, or before the run began."""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has read of others, the first first."""

    sources: tuple[Source, ...] = ()

    def names(self, *, before: int | None = None) -> list[str]:
        """Return what was read before the message of a sequence was written, or all of it."""
        return [one.name for one in self.sources if before is None or one.at is None or one.at < before]

    def having(self, name: str, *, at: int | None = None) -> "Taint":
        """Return it with one more source; with one that is known, or too many, it stays as it is."""
        if len(self.sources) >= MOST or name in self.names():
            return self
        return Taint(sources=(*self.sources, Source(name=name, at=at)))


def source(kind: str, name: str) -> str:
    """Return the name of a source, in which nothing that others wrote can do harm."""
    return f"{kind}:{as_name(name)}"


def taint_of(values: Mapping[str, Json]) -> Taint:
    """Return the taint of a run; what cannot be read is no reason to have none."""
    written = values.get(TAINT)
    try:
        return Taint() if written is None else msgspec.convert(written, Taint)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the taint of this run cannot be read: {exc}", value=TAINT) from exc


def handed_on(names: Iterable[str]) -> dict[str, Json]:
    """Return the values of a run that begins with what others have read."""
    sources = tuple(Source(name=name) for name in names)
    return {TAINT: msgspec.to_builtins(Taint(sources=sources))} if sources else {}
