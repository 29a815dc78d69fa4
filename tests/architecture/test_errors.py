"""The tree of errors is drawn where it is defined, and every error is in the reference."""

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
BASE_CLASSES: Final = (Refused, TooMany)
"""Base classes of which only subclasses are raised."""
NEVER_SENT: Final = (*BASE_CLASSES, RunStopped)  # clients receive the code of its reason
ROW: Final = re.compile(
    r"^\| `(?P<code>\w+)` \| `(?P<name>\w+)` \| (?P<meaning>.+?) \| (?P<advice>.+?) \|$", re.MULTILINE
)
BRANCH: Final = re.compile(r"^(?P<indent>[│ ]*)[├└]── (?P<name>\w+)", re.MULTILINE)


def test_every_error_is_in_the_reference_with_its_code_and_meaning() -> None:
    documented = [(row["code"], row["name"], row["meaning"]) for row in ROW.finditer(REFERENCE.read_text())]
    assert documented == [(error.code, error.__name__, _meaning(error)) for error in _tree(errors.HoldfastError)]


def test_the_reference_has_every_error_code_that_clients_receive_and_no_others() -> None:
    sent = {f"`{code}`" for error in _all() if error not in NEVER_SENT for code in _wire_codes(error)}
    codes = {code for code, *_ in rows(REFERENCE, "code", "class")}
    for page in PAGES.glob("*.md"):
        codes |= {code for code, *_ in rows(page, "code", "status", "meaning")}
        if page.name != "cli.md":  # those are exit codes
            codes |= {code for row in rows(page, "code", "meaning") for code in row[0].split(", ")}
    assert codes == sent


def test_every_status_in_the_reference_matches_its_error() -> None:
    status = {f"`{code}`": str(status_of(error(""))) for error in _all() for code in _wire_codes(error)}
    for page in PAGES.glob("*.md"):
        wrong = [row for row in rows(page, "code", "status", "meaning") if status[row[0]] != row[1]]
        assert wrong == [], page.name


def test_base_classes_of_errors_are_never_raised() -> None:
    base_classes = {base_class.__name__ for base_class in BASE_CLASSES}
    called = {
        node.func.id
        for module in package_modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & base_classes == set()


def test_every_code_is_used_once() -> None:
    codes = [error.code for error in _all()]
    assert sorted(codes) == sorted(set(codes))


def test_the_drawn_tree_of_errors_is_current() -> None:
    drawn: dict[str, str] = {}
    path = ["HoldfastError"]
    for branch in BRANCH.finditer(errors.__doc__ or ""):
        depth = len(branch["indent"]) // 4 + 1
        path[depth:] = [branch["name"]]
        drawn[branch["name"]] = path[depth - 1]
    _, *subclass = _tree(errors.HoldfastError)
    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in subclass}


def _tree(error: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    """Yield `error` and its subclasses in the order of their definition."""
    yield error
    for subclass in error.__subclasses__():
        if subclass.__module__ == errors.__name__:
            yield from _tree(subclass)


@cache
def _all() -> list[type[errors.HoldfastError]]:
    """Return every error of the package, wherever it is defined."""
    for module in package_modules():
        importlib.import_module(".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts))
    found, pending = [], [errors.HoldfastError]
    while pending:
        found.append(pending.pop())
        pending += [subclass for subclass in found[-1].__subclasses__() if subclass.__module__.startswith("holdfast.")]
    return found


def _wire_codes(error: type[errors.HoldfastError]) -> set[str]:
    """Return the codes that clients receive: the OpenAI API renames some of them."""
    codes = {OPENAI_ERROR_CODES.get(error.code, error.code)}
    return codes | {error.code} if error.__module__ == errors.__name__ else codes


def _meaning(error: type[errors.HoldfastError]) -> str:
    return (error.__doc__ or "").splitlines()[0]
