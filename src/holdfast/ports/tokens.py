"""How long a text is to a model."""

from typing import Protocol


class Tokens(Protocol):
    """Counts tokens, exactly or by an estimate that says how good it is."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
