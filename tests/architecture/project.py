"""Files and syntax trees of the project, for the architecture tests."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "src" / "holdfast"
PROSE: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def package_modules(folder: str = "") -> list[Path]:
    """Return the modules of the package, or of one of its folders."""
    return sorted((PACKAGE / folder).rglob("*.py"))


def files() -> list[Path]:
    """Return every file that is, or could be, committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file()]


def documents() -> list[Path]:
    """Return the Markdown files at the top level and all in `docs`."""
    return [ROOT / name for name in PROSE] + sorted((ROOT / "docs").rglob("*.md"))


def name(path: Path) -> str:
    """Return the path relative to the root of the project."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(), filename=name(path))


def scopes(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the dotted name of the function or class around it."""
    pending: list[tuple[str, ast.AST]] = [("", module)]
    while pending:
        scope, node = pending.pop()
        yield scope, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope = f"{scope}.{node.name}".lstrip(".")
        pending.extend((scope, child) for child in ast.iter_child_nodes(node))
