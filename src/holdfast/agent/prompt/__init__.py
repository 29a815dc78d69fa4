"""Prompt texts: the `.md` files of this folder, loaded by name."""

from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent


@cache
def load_text(name: str) -> str:
    """Return the prompt text of that name, without its final line break."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def render_text(name: str, **values: object) -> str:
    """Return the prompt text of that name with `{values}` filled in; braces inside a value are kept as they are."""
    return load_text(name).format(**values)
