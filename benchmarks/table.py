"""A table of results, as Markdown or JSON."""

from typing import Any

import msgspec


class Table(msgspec.Struct):
    """Columns and rows under a title."""

    title: str
    columns: list[str]
    rows: list[list[Any]] = []

    def add(self, *cells: Any) -> None:
        """Add a row."""
        self.rows.append(list(cells))

    def render(self) -> str:
        """Return it as Markdown."""
        lines = [f"### {self.title}", "", _line(self.columns), _line(["---"] * len(self.columns))]
        return "\n".join([*lines, *(_line(map(_cell, row)) for row in self.rows), ""])


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
