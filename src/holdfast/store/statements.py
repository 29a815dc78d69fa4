"""SQL by name.

A `.sql` file holds statements under `-- name:` lines. Those in `store/sql` are the same for every database; each
database has a folder of its own for the rest. Parameters are written `:name`, and a statement takes them in the order
in which they first appear.
"""

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"--[^\n]*")
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")

Placeholder = Callable[[int], str]


class Statement(msgspec.Struct, frozen=True):
    """One statement, ready for its database."""

    name: str
    sql: str
    parameters: tuple[str, ...]


def load(dialect: str, placeholder: Placeholder) -> dict[str, Statement]:
    """Return every statement of a database, the common ones included."""
    found: dict[str, Statement] = {}
    for name, text in [*_statements(_store() / "sql"), *_statements(_store() / dialect)]:
        if name in found:
            raise ValueError(f"the statement `{name}` is defined twice for {dialect}")
        found[name] = _prepare(name, text, placeholder)
    return found


def migrations(dialect: str) -> list[tuple[str, str]]:
    """Return the name and text of each migration of a database, in order."""
    folder = _store() / dialect / "migrations"
    return [(entry.name.removesuffix(".sql"), entry.read_text()) for entry in _sql_files(folder)]


def _store() -> Traversable:
    return files("holdfast.store")


def _sql_files(folder: Traversable) -> list[Traversable]:
    return sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)


def _statements(folder: Traversable) -> Iterator[tuple[str, str]]:
    for entry in _sql_files(folder):
        _, *parts = _NAME.split(entry.read_text())
        yield from zip(parts[::2], parts[1::2], strict=True)


def _prepare(name: str, text: str, placeholder: Placeholder) -> Statement:
    sql = " ".join(_COMMENT.sub("", text).split()).removesuffix(";")
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    position = {parameter: placeholder(index) for index, parameter in enumerate(parameters, start=1)}
    sql = _PARAMETER.sub(lambda match: position[match[1]], sql)
    return Statement(name, sql, parameters)
