"""The glossary has every package, port and type of the domain, and nothing else."""

import ast
import re
from pathlib import Path
from typing import Final

from tests.architecture.project import PACKAGE, ROOT, package_modules, tree

GLOSSARY: Final = ROOT / "docs" / "concepts" / "glossary.md"
CODE: Final = re.compile(r"`(\w+)`")
LISTED_ELSEWHERE: Final = {"errors.py", "events"}
"""Parts of the domain with their own page in the reference."""


def test_every_package_is_in_the_glossary() -> None:
    packages = {path.stem for path in PACKAGE.iterdir() if path.stem[0] not in "_." and path.suffix in ("", ".py")}
    assert _terms("Packages", column=0) == packages


def test_every_port_is_in_the_glossary() -> None:
    ports = {node.name for node in _classes("ports") if "Protocol" in {ast.unparse(base) for base in node.bases}}
    assert ports
    assert _terms("Ports", column=0) == ports


def test_every_type_of_the_domain_is_in_the_glossary() -> None:
    types = {node.name for node in _classes("domain")}
    assert types
    assert _terms("Domain", column=1) == types


def _classes(folder: str) -> list[ast.ClassDef]:
    modules = [path for path in package_modules(folder) if not _is_listed_elsewhere(path, folder)]
    nodes = [node for path in modules for node in tree(path).body]
    return [node for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def _is_listed_elsewhere(path: Path, folder: str) -> bool:
    return path.relative_to(PACKAGE / folder).parts[0] in LISTED_ELSEWHERE


def _terms(section: str, *, column: int) -> set[str]:
    """Return the code names in one column of a section's table."""
    _, _, text = GLOSSARY.read_text().partition(f"## {section}\n")
    rows = [line.split("|")[1:-1] for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return {found for row in rows[1:] for found in CODE.findall(row[column])}
