"""`holdfast.__all__` is the public API: all of it works, and nothing else is documented."""

import ast
import subprocess
import sys
from types import ModuleType
from typing import Final

import holdfast
from tests.architecture.markdown import python_blocks
from tests.architecture.project import documents, name

HEAVY: Final = ("asyncpg", "litestar", "psutil", "pydantic")
DOCUMENTED: Final = {"holdfast", "holdfast.testing"}


def test_every_public_name_can_be_imported() -> None:
    assert holdfast.__all__
    assert [public for public in holdfast.__all__ if not hasattr(holdfast, public)] == []


def test_public_names_are_listed_once_and_in_order() -> None:
    assert list(holdfast.__all__) == sorted(set(holdfast.__all__))


def test_nothing_is_public_by_accident() -> None:
    visible = {
        attribute
        for attribute, value in vars(holdfast).items()
        if not attribute.startswith("_") and not isinstance(value, ModuleType)
    }
    assert sorted(visible - set(holdfast.__all__)) == []


def test_documents_use_public_names_only() -> None:
    imports = [
        (f"{name(document)}:{block.line}", node)
        for document in documents()
        for block in python_blocks(document)
        for node in ast.walk(ast.parse(block.code))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "holdfast"
    ]
    assert [f"{place}: {node.module}" for place, node in imports if node.module not in DOCUMENTED] == []
    used = [(place, alias.name) for place, node in imports if node.module == "holdfast" for alias in node.names]
    assert [f"{place}: {public}" for place, public in used if public not in holdfast.__all__] == []


def test_importing_holdfast_loads_no_heavy_dependency() -> None:
    program = f"import sys, holdfast; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
