"""What somebody may have meant who named a thing that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint to follow a message, or nothing when no name is like `name`."""
    close = get_close_matches(name, list(names), n=3)
    return f": did you mean {' or '.join(f'`{one}`' for one in close)}?" if close else ""
