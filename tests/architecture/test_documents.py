"""Documents are checked like code: examples run, links have targets, named tests exist."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.markdown import anchors, links, python_blocks
from tests.architecture.project import PACKAGE, ROOT, documents, files, name, scopes, tree

ARCHITECTURE: Final = ROOT / "docs" / "concepts" / "architecture.md"
NAMED_CODE: Final = re.compile(r"`(?P<file>(?!tests/)[a-z_/]+\.py)::(?P<name>[\w.]+)`")
NAMED_TEST: Final = re.compile(r"(?P<file>tests/[\w/]+\.py)::(?P<name>\w+(::\w+)?)")
REGISTRY: Final = re.compile(r"https?://(registry|files|deb)\.")
MACHINE: Final = re.compile(r"(?<![\w.~<>{}-])/(work|root|farm|home)/")
RELEASE: Final = re.compile(r"^## \[([^\]]+)\]", re.MULTILINE)


@pytest.mark.parametrize("document", [path for path in documents() if path.exists() and python_blocks(path)], ids=name)
def test_python_in_documents_runs(document: Path, tmp_path: Path) -> None:
    blocks = python_blocks(document)
    for block in blocks:
        compile(block.code, f"{name(document)}:{block.line}", "exec")
    script = tmp_path / f"{document.stem}_document.py"  # never the name of a package that it imports
    script.write_text(_in_place([(block.line, block.code) for block in blocks if block.runs]))
    command = [sys.executable, "-W", "error", script.name]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_relative_link_has_a_target() -> None:
    broken = [
        f"{name(document)}: {target}"
        for document in documents()
        for target in links(document)
        if not re.match(r"[a-z]+:", target) and not _exists(document, target)
    ]
    assert broken == []


def test_the_python_of_all_documents_passes_mypy(tmp_path: Path) -> None:
    for document in documents():
        if blocks := python_blocks(document):
            script = tmp_path / f"{re.sub(r'[^a-z]', '_', name(document).lower())}.py"
            script.write_text(_in_place([(block.line, block.code) for block in blocks]))
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path)]
    checked = subprocess.run(mypy, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert checked.returncode == 0, checked.stdout


def test_the_python_of_the_readme_runs_twice(tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text("\n".join(block.code for block in python_blocks(ROOT / "README.md")))
    for _ in range(2):
        command = [sys.executable, "-W", "error", script.name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def test_every_test_named_in_the_documents_exists() -> None:
    named = [(name(path), found) for path in documents() for found in NAMED_TEST.finditer(path.read_text())]
    assert named
    missing = [f"{path}: {found[0]}" for path, found in named if found["name"] not in _tests(ROOT / found["file"])]
    assert missing == []


def test_every_promise_of_the_security_concept_names_a_test() -> None:
    _, _, tables = (ROOT / "docs" / "concepts" / "security.md").read_text().partition("## What each layer stops")
    rows = [line for line in tables.splitlines() if line.startswith("| ") and line != "| promise | test |"]
    assert len(rows) > 20
    assert [row for row in rows if NAMED_TEST.search(row) is None] == []


def test_every_name_in_the_walks_through_the_code_exists() -> None:
    named = list(NAMED_CODE.finditer(ARCHITECTURE.read_text()))
    assert len(named) > 20
    assert [found[0] for found in named if found["name"] not in _definitions(PACKAGE / found["file"])] == []


def test_no_file_names_a_registry_or_a_folder_of_one_machine() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{name(path)}: {match[0]}" for rule in (REGISTRY, MACHINE) for match in rule.finditer(text)]
    assert found == []


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest, *_ = RELEASE.findall((ROOT / "CHANGELOG.md").read_text())
    assert newest in ("Unreleased", version)


def _in_place(blocks: list[tuple[int, str]]) -> str:
    """Return one program in which every block has the line numbers of its document."""
    lines: list[str] = []
    for first, code in blocks:
        lines += [""] * (first - 1 - len(lines)) + code.splitlines()
    return "\n".join(lines) + "\n"


def _exists(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (document.parent / path).resolve() if path else document
    if not file.exists() or not file.is_relative_to(ROOT):
        return False
    return not anchor or file.suffix != ".md" or anchor in anchors(file)


def _definitions(file: Path) -> set[str]:
    """Return the names that a module defines: functions, classes, and `Class.method`."""
    if not file.exists():
        return set()
    return {scope for scope, node in scopes(tree(file)) if scope}


def _tests(file: Path) -> set[str]:
    """Return the names of the tests in a file: functions, methods, and state machines that are assigned."""
    names: set[str] = set()
    for node in tree(file).body if file.exists() else []:
        match node:
            case ast.FunctionDef(name=test) | ast.AsyncFunctionDef(name=test):
                names.add(test)
            case ast.ClassDef(name=group, body=body):
                methods = [part for part in body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
                names |= {group, *(f"{group}::{method.name}" for method in methods)}
            case ast.Assign(targets=[ast.Name(id=machine)]):
                names.add(machine)
            case _:
                pass
    return names


def test_ci_runs_the_checks_and_the_tests() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-2:] == ["make check", "make test"]
    assert "set -euo pipefail" in lines
