"""Text of files: decoding without guessing, numbered lines, and rows cut to what a model should read.

UTF-8, with or without a byte order mark, and UTF-16 with one are recognized. Whatever an edit does not change keeps
its bytes.
"""

import codecs
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import WorkingPath
from holdfast.tools.tool import ToolResult

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file that is read."""

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says, line by line. Where every line of it ends with CRLF, that is left out here."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    crlf: bool = False

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.bom + self.encode_piece(self.text)

    def encode_piece(self, text: str) -> bytes:
        """Return the bytes that a part of it has in the file."""
        return (text.replace("\n", "\r\n") if self.crlf else text).encode(self.encoding)

    @property
    def encoding_note(self) -> str:
        """How it is written, in words; nothing where that is as usual."""
        words = [] if (self.encoding, self.bom) == ("utf-8", b"") else [self.encoding.upper(), "with a mark"]
        return " ".join([*words, "with CRLF line ends"] if self.crlf else words)


def decode_file(content: bytes, path: WorkingPath) -> FileText:
    """Return what a file says, or raise `Invalid` if it is no text that can be read for certain."""
    mark, encoding = next(
        ((mark, name) for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), (b"", "utf-8")
    )
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as exc:
        raise Invalid(_undecodable_message(content, path, exc.start + len(mark)), path=path) from exc
    if "\x00" in text:
        raise Invalid(f"`{path}` is binary ({len(content)} bytes): it has no text to read", path=path)
    crlf = "\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
    return FileText(text=text.replace("\r\n", "\n") if crlf else text, encoding=encoding, bom=mark, crlf=crlf)


def _undecodable_message(content: bytes, path: WorkingPath, at: int) -> str:
    if b"\x00" in content:
        return f"`{path}` is binary ({len(content)} bytes): it has no text to read"
    return (
        f"`{path}` is neither UTF-8 nor marked as UTF-16 (byte {at + 1} is no text), and its encoding is not guessed: "
        "if it is text, have it converted to UTF-8 first"
    )


MAX_LINES: Final = 2_000
MAX_LINE_CHARS: Final = 1_000
"""Characters of a line that are shown."""
MAX_SHOWN_CHARS: Final = 30_000
"""Characters that are shown at once."""


class NumberedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a text: those from `first` up to, and not with, `end`, counted from 1."""

    text: str
    first: int
    end: int
    total: int


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends; only a line feed ends a line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def number_lines(lines: list[str], *, first: int, limit: int) -> NumberedLines:
    """Return lines from number `first` on, at most so many, and no more than a model should read."""
    rows: list[str] = []
    room = MAX_SHOWN_CHARS
    for number, line in enumerate(lines[first - 1 : first - 1 + min(limit, MAX_LINES)], start=first):
        row = f"{number:>6}\t{truncate_line(line)}"
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    return NumberedLines(text="\n".join(rows), first=first, end=first + len(rows), total=len(lines))


def truncate_line(line: str, *, limit: int = MAX_LINE_CHARS) -> str:
    """Return a line that is not too long to be shown; what is left out is said."""
    return line if len(line) <= limit else f"{line[:limit]}… [{len(line) - limit} more characters]"


def rows_result(rows: Sequence[str], *, summary: str, notes: Iterable[str] = ()) -> ToolResult:
    """Return rows for a model, then how many things there are, and notes about what is not there."""
    kept = _rows_that_fit(rows)
    left = [f"{len(rows) - len(kept)} more rows are too many to show"] if len(kept) < len(rows) else []
    return ToolResult(content="\n".join([*kept, f"[{'; '.join([summary, *left, *notes])}]"]))


def pluralize(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


def _rows_that_fit(rows: Sequence[str]) -> Sequence[str]:
    room = MAX_SHOWN_CHARS
    for index, row in enumerate(rows):
        room -= len(row) + 1
        if room < 0:
            return rows[:index]
    return rows
