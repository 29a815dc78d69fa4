"""How a run that is followed can be seen: as lines of JSON for programs, or on a `Screen` for people."""

from typing import Protocol

from holdfast.cli.printing import print_line, say
from holdfast.domain.run import Run


class View(Protocol):
    """Where a run is shown that is followed."""

    def begin(self, run: Run) -> None:
        """Show what is followed."""

    def show(self, data: bytes) -> None:
        """Show an event, as the log holds it."""

    def tell(self, words: str) -> None:
        """Say something about the following itself."""


class JsonLines:
    """`View` for programs: one event on each line, byte for byte as in the log."""

    def begin(self, run: Run) -> None:
        """Print nothing: the log says it all."""

    def show(self, data: bytes) -> None:
        """Print an event."""
        print_line(data)

    def tell(self, words: str) -> None:
        """Say something on stderr."""
        say(words)
