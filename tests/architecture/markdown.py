"""The parts of a Markdown document that tests check."""

import re
from pathlib import Path
from typing import Final, NamedTuple

_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
_LINK: Final = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_TABLE: Final = re.compile(r"^(?P<head>\|.+\|)\n\|[-|]+\|\n(?P<rows>(?:\|.+\|\n?)*)", re.MULTILINE)
_BAR: Final = re.compile(r"(?<!\\)\|")
_HEADING: Final = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


class Block(NamedTuple):
    """Python in a document: the line on which it starts, and whether it is run or only compiled."""

    line: int
    code: str
    runs: bool


class Table(NamedTuple):
    """A table in a document: the names of its columns, and the cells of each row."""

    head: list[str]
    rows: list[list[str]]


def tables(document: Path) -> list[Table]:
    """Return all tables, in order."""
    return [
        Table(head=_cells(match["head"]), rows=[_cells(row) for row in match["rows"].splitlines()])
        for match in _TABLE.finditer(_FENCE.sub("", document.read_text()))
    ]


def rows(document: Path, *head: str) -> list[list[str]]:
    """Return the rows of all tables whose first columns have these names."""
    return [row for table in tables(document) if table.head[: len(head)] == list(head) for row in table.rows]


def python_blocks(document: Path) -> list[Block]:
    """Return the blocks marked `python`, in order."""
    text = document.read_text()
    return [
        Block(
            line=text.count("\n", 0, fence.start("code")) + 1,
            code=re.sub(rf"^{fence['indent']}", "", fence["code"], flags=re.MULTILINE),
            runs=fence["info"].split()[1:] != ["no-run"],
        )
        for fence in _FENCE.finditer(text)
        if fence["info"].split()[:1] in (["python"], ["py"], ["python3"])
    ]


def links(document: Path) -> list[str]:
    """Return the targets of all links outside code."""
    return [link["target"] for link in _LINK.finditer(_without_code(document))]


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a document."""
    return {_slug(heading) for heading in _HEADING.findall(_FENCE.sub("", document.read_text()))}


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in _BAR.split(row)[1:-1]]


def _without_code(document: Path) -> str:
    return re.sub(r"`[^`\n]*`", "`", _FENCE.sub("", document.read_text()))


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
