"""The distribution of Holdfast, and the command that installs one of its extras: every hint uses it."""

from typing import Final

DISTRIBUTION: Final = "holdfast-agents"


def install_command(extra: str) -> str:
    """Return the command that installs an extra of Holdfast."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
