"""SQL lives in `.sql` files, where it can be read, reviewed and explained as SQL."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.project import PACKAGE, package_modules, tree

# A statement in capitals is found anywhere in a string; one in small letters, which may be prose, only at its start.
STATEMENT: Final = re.compile(
    r"\b(SELECT\b.+\bFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\b.+\bSET|DELETE\s+FROM|TRUNCATE\s+\w"
    r"|(CREATE|ALTER|DROP)\s+(\w+\s+)*(TABLE|INDEX|VIEW|TRIGGER|SCHEMA|DATABASE|FUNCTION|TYPE))\b"
    r"|^\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|LISTEN|UNLISTEN|NOTIFY|VACUUM|ANALYZE|SHOW|SET|LOCK)\b(?!_)"
    r"|^\s*SELECT\s+[\w.]+\("
    r"|^\s*(?i:select\s.+\sfrom\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|pragma\s"
    r"|(create|alter|drop)\s+(table|index|view|trigger|schema)\s|begin(\s+(immediate|exclusive|transaction))?;?\s*$)",
    re.DOTALL,
)

# Module (a pattern), what its strings may begin with, and why that SQL may stand outside `.sql` files.
ALLOWED: Final = [
    (
        "store/sqlite/*.py",
        r"BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|VACUUM",
        "opening a connection, starting or ending a transaction, and rewriting the file map no rows",
    ),
    (
        "store/postgres/transaction.py",
        r"VACUUM",
        "it maps no rows, and cannot be part of a transaction",
    ),
    (
        "bus/postgres.py",
        r"SELECT pg_notify",
        "a wake-up reads and writes no rows",
    ),
]


def test_no_sql_outside_sql_files() -> None:
    modules = package_modules()
    assert modules
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{line}: {text.strip()[:60]}"
        for path in modules
        for line, text in _strings(tree(path))
        if STATEMENT.search(text) and not _is_allowed(path, text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM b",
        "WITH x AS (SELECT a\n FROM b) TABLE x",
        "SELECT pg_notify($1, '')",
        "INSERT OR IGNORE INTO a VALUES (1)",
        "UPDATE a SET b = 1",
        "DELETE FROM a",
        "BEGIN IMMEDIATE",
        "PRAGMA journal_mode = wal",
        "CREATE UNIQUE INDEX a ON b (c)",
        "select a from b",
        "update a set b = 1",
        "begin immediate",
    ],
)
def test_a_statement_is_recognised(text: str) -> None:
    (literal,) = _strings(ast.parse(repr(text) + ".lower"))
    assert STATEMENT.search(literal[1])


@pytest.mark.parametrize(
    "text",
    [
        "select one of these",
        "the update set by the caller",
        "RUN_STARTED",
        "SET_STATE",
        "begin again",
        "SELECT",
    ],
)
def test_prose_and_names_are_not_statements(text: str) -> None:
    assert not STATEMENT.search(text)


def test_an_f_string_is_checked_as_a_whole() -> None:
    ((_, text),) = _strings(ast.parse("x = f'SELECT {columns} FROM {table}'"))
    assert STATEMENT.search(text)


def _is_allowed(path: Path, text: str) -> bool:
    module = path.relative_to(PACKAGE).as_posix()
    return any(fnmatch(module, pattern) and re.match(rf"\s*({words})\b", text) for pattern, words, _ in ALLOWED)


def _strings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each string literal that is used for something, with its line; an f-string as one."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                continue  # a docstring
            case ast.Constant(value=str(text)):
                yield node.lineno, text
            case ast.JoinedStr(values=values):
                yield node.lineno, "".join(_piece(value) for value in values)
                pending.extend(value for value in values if isinstance(value, ast.FormattedValue))
            case _:
                pending.extend(ast.iter_child_nodes(node))


def _piece(value: ast.expr) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else "x"
