"""The tree of errors is drawn where it is defined, and documented for those who catch them."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from holdfast.api.errors import Refused, status_of
from holdfast.api.openai.completions import RunStopped
from holdfast.api.openai.responses import OPENAI_ERROR_CODES
from holdfast.control.errors import TooMany
from holdfast.domain import errors
from tests.architecture.markdown import rows
from tests.architecture.project import PACKAGE, ROOT, package_modules, tree

PAGES: Final = ROOT / "docs" / "reference"
REFERENCE: Final = PAGES / "errors.md"
FAMILIES: Final = (Refused, TooMany)
"""What only those below them are raised as."""
NEVER_SENT: Final = (*FAMILIES, RunStopped)  # the last is told by its reason, which is a code of its own
ROW: Final = re.compile(
    r"^\| `(?P<code>\w+)` \| `(?P<name>\w+)` \| (?P<meaning>.+?) \| (?P<advice>.+?) \|$", re.MULTILINE
)
BRANCH: Final = re.compile(r"^(?P<indent>[│ ]*)[├└]── (?P<name>\w+)", re.MULTILINE)


def test_every_error_is_in_the_reference_with_its_code_and_meaning() -> None:
    written = [(row["code"], row["name"], row["meaning"]) for row in ROW.finditer(REFERENCE.read_text())]
    assert written == [(error.code, error.__name__, _meaning(error)) for error in _tree(errors.HoldfastError)]


def test_every_code_that_a_client_can_read_is_in_the_reference_and_no_other_is() -> None:
    sent = {f"`{code}`" for error in _all() if error not in NEVER_SENT for code in _on_the_wire(error)}
    codes = {code for code, *_ in rows(REFERENCE, "code", "class")}
    for page in PAGES.glob("*.md"):
        codes |= {code for code, *_ in rows(page, "code", "status", "meaning")}
        if page.name != "cli.md":  # those are exit codes
            codes |= {code for row in rows(page, "code", "meaning") for code in row[0].split(", ")}
    assert codes == sent


def test_every_status_in_the_reference_is_that_of_the_error() -> None:
    status = {f"`{code}`": str(status_of(error(""))) for error in _all() for code in _on_the_wire(error)}
    for page in PAGES.glob("*.md"):
        wrong = [row for row in rows(page, "code", "status", "meaning") if status[row[0]] != row[1]]
        assert wrong == [], page.name


def test_nothing_is_raised_as_a_family_of_errors() -> None:
    families = {family.__name__ for family in FAMILIES}
    made = {
        node.func.id
        for module in package_modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert made & families == set()


def test_every_code_is_used_once() -> None:
    codes = [error.code for error in _all()]
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


@cache
def _all() -> list[type[errors.HoldfastError]]:
    """Return every error of the package, wherever it is defined."""
    for module in package_modules():
        importlib.import_module(".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts))
    found, pending = [], [errors.HoldfastError]
    while pending:
        found.append(pending.pop())
        pending += [below for below in found[-1].__subclasses__() if below.__module__.startswith("holdfast.")]
    return found


def _on_the_wire(error: type[errors.HoldfastError]) -> set[str]:
    """Return the codes that clients read: one API has words of its own, for its own errors and for some of all."""
    words = {OPENAI_ERROR_CODES.get(error.code, error.code)}
    return words | {error.code} if error.__module__ == errors.__name__ else words


def _meaning(error: type[errors.HoldfastError]) -> str:
    return (error.__doc__ or "").splitlines()[0]
