"""The tree of errors is drawn where it is defined, and documented for those who catch them."""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.domain import errors
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "errors.md"
ROW: Final = re.compile(
    r"^\| `(?P<code>\w+)` \| `(?P<name>\w+)` \| (?P<meaning>.+?) \| (?P<advice>.+?) \|$", re.MULTILINE
)
BRANCH: Final = re.compile(r"^(?P<indent>[│ ]*)[├└]── (?P<name>\w+)", re.MULTILINE)


def test_every_error_is_in_the_reference_with_its_code_and_meaning() -> None:
    written = [(row["code"], row["name"], row["meaning"]) for row in ROW.finditer(REFERENCE.read_text())]
    assert written == [(error.code, error.__name__, _meaning(error)) for error in _tree(errors.HoldfastError)]


def test_every_code_is_used_once() -> None:
    codes = [error.code for error in _tree(errors.HoldfastError)]
    assert sorted(codes) == sorted(set(codes))


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, str] = {}
    path = ["HoldfastError"]
    for branch in BRANCH.finditer(errors.__doc__ or ""):
        depth = len(branch["indent"]) // 4 + 1
        path[depth:] = [branch["name"]]
        drawn[branch["name"]] = path[depth - 1]
    _, *below = _tree(errors.HoldfastError)
    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in below}


def _tree(error: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    """Yield `error` and all below it in the order of their definition."""
    yield error
    for below in error.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _tree(below)


def _meaning(error: type[errors.HoldfastError]) -> str:
    return (error.__doc__ or "").splitlines()[0]
