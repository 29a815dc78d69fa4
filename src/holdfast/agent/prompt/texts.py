"""The texts that stand in `.md` files of this package."""

from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent


@cache
def text(name: str) -> str:
    """Return the text of that name, without the line break at its end."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def filled(name: str, **values: object) -> str:
    """Return the text of that name with `{values}` in place; what they say is not looked through again."""
    return text(name).format(**values)
