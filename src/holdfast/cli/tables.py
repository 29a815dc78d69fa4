"""Data of commands on stdout: tables and fields for people, JSON for programs, and files."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import typer

from holdfast.cli.command import OutputFormat, options
from holdfast.cli.output import print_json, print_message, strip_control_chars
from holdfast.domain.errors import Unavailable

T = TypeVar("T")
Columns: TypeAlias = Sequence[tuple[str, Callable[[T], object]]]
GAP: Final = "  "


def print_list(items: Iterable[T], columns: Columns[T], *, empty: str) -> None:
    """Print the items of a list; an empty one is a message on stderr, or an empty JSON list."""
    match options().output:
        case OutputFormat.JSON:
            print_json(list(items))
        case OutputFormat.JSONL:
            for item in items:
                print_json(item)
        case OutputFormat.TABLE:
            rows = [[_cell(value(item)) for _, value in columns] for item in items]
            if rows:
                print_rows([[name.upper() for name, _ in columns], *rows])
            else:
                print_message(empty)


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; on a terminal a line ends at its edge."""
    from rich.cells import cell_len, set_cell_size

    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]))]
    limit = typer_width()
    for row in rows:
        line = GAP.join(text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)).rstrip()
        if limit is not None and cell_len(line) > limit:
            line = set_cell_size(line, limit - 1).rstrip() + "…"
        typer.echo(line)


def typer_width() -> int | None:
    """Return the width of the terminal; null if stdout is not one, so that pipes get whole lines."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def print_object(value: Any, fields: Sequence[tuple[str, object]]) -> None:
    """Print one object: its fields for people, or the whole of it as JSON."""
    if options().as_json:
        print_json(value)
        return
    shown = [(name, text) for name, field in fields if (text := _text(field))]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        indented = strip_control_chars(text).replace("\n", "\n" + " " * (width + len(GAP)))
        typer.echo(f"{name.ljust(width)}{GAP}{indented}")


def print_tree(nodes: Sequence[tuple[str, str | None, str]], *, root: str | None = None) -> None:
    """Print nodes (id, parent, text) as a tree, from `root` or from every node without a parent."""
    ids = {id for id, _, _ in nodes}

    def walk(id: str, text: str, prefix: str, branch: str) -> None:
        typer.echo(strip_control_chars(f"{prefix}{branch}{text}"))
        below = [(child, line) for child, parent, line in nodes if parent == id]
        deeper = prefix + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        for at, (child, line) in enumerate(below):
            walk(child, line, deeper, "└─ " if at == len(below) - 1 else "├─ ")

    for id, parent, text in nodes:
        if id == root or (root is None and parent not in ids):
            walk(id, text, "", "")


def print_done(value: Any, message: str) -> None:
    """Report that something was done: a message on stderr, or the object as JSON."""
    if options().as_json:
        print_json(value)
    else:
        print_message(message)


def write_content(content: bytes, file: Path | None) -> None:
    """Write bytes to a file, or to stdout."""
    if file is None or str(file) == "-":
        typer.echo(content, nl=False)
        return
    try:
        with file.open("xb") as new:
            new.write(content)
    except FileExistsError as exc:
        raise Unavailable(f"`{file}` exists already: choose another name") from exc
    except OSError as exc:
        raise Unavailable(f"cannot write `{file}`: {exc.strerror or exc}") from exc
    print_message(f"wrote {len(content)} bytes to {file}")


def one_line(value: object, limit: int = 80) -> str:
    """Return a value as a text on one line, shortened if it is long."""
    line = " ".join(strip_control_chars(_text(value)).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def input_line(value: object, limit: int = 80) -> str:
    """Return what a run was begun with on one line: words, or the schedule, heartbeat or reminder that was due."""
    if isinstance(value, dict) and isinstance(value.get("schedule_id"), str):
        words = value.get("reminder") or value.get("name") or value["schedule_id"]
        with suppress(TypeError, ValueError):
            words = f"{words}, due {short_time(value['due_at'])}"
        return one_line(words, limit)
    return one_line(value, limit)


def short_time(at: str | None) -> str:
    """Return an instant in the time zone of this machine, without its fraction: `2026-01-31 12:00:00`."""
    return "" if at is None else f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"


def _cell(value: object) -> str:
    return " ".join(strip_control_chars(_text(value)).split())


def _text(value: object) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    given = msgspec.to_builtins(value, enc_hook=str)
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return ", ".join(given)
    if isinstance(given, dict):
        given = {name: field for name, field in given.items() if field not in (None, [], {})}
    return msgspec.json.encode(given).decode() if given not in ([], {}) else ""
