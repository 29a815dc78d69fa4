"""Text of files: decoding without guessing, numbered lines, and rows within the size limit of a result.

UTF-8, with or without a byte order mark, and UTF-16 with one are recognized. Parts that an edit does not change keep
their bytes.
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

BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """The decoded text of a file. If every line ends with CRLF, `text` has LF instead."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    crlf: bool = False

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.bom + self.encode_piece(self.text)

    def encode_piece(self, text: str) -> bytes:
        """Return a part of the text as bytes of the file."""
        return (text.replace("\n", "\r\n") if self.crlf else text).encode(self.encoding)

    @property
    def encoding_note(self) -> str:
        """A description of the encoding and line ends, empty for UTF-8 with LF."""
        words = [] if (self.encoding, self.bom) == ("utf-8", b"") else [self.encoding.upper(), "with a mark"]
        return " ".join([*words, "with CRLF line ends"] if self.crlf else words)


def decode_file(content: bytes, path: WorkingPath) -> FileText:
    """Return the text of a file, or raise `Invalid` if it is binary or in an unknown encoding."""
    mark, encoding = next(((mark, name) for mark, name in BYTE_ORDER_MARKS if content.startswith(mark)), (b"", "utf-8"))
    binary = f"`{path}` is binary ({len(content)} bytes): it has no text to read"
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as exc:
        if b"\x00" in content:
            raise Invalid(binary, path=path) from exc
        raise Invalid(
            f"`{path}` is neither UTF-8 nor marked as UTF-16 (byte {exc.start + len(mark) + 1} is invalid), and its "
            "encoding is not guessed: if it is text, convert it to UTF-8 first",
            path=path,
        ) from exc
    if "\x00" in text:
        raise Invalid(binary, path=path)
    crlf = "\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
    return FileText(text=text.replace("\r\n", "\n") if crlf else text, encoding=encoding, bom=mark, crlf=crlf)


MAX_LINES: Final = 2_000
"""Lines that one call reads."""
MAX_LINE_CHARS: Final = 1_000
"""Characters of a line that are shown."""
MAX_SHOWN_CHARS: Final = 30_000
"""Characters in the result of one call."""


class NumberedLines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines `[first, end)` of a text, counted from 1."""

    text: str
    first: int
    end: int
    total: int


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends; only a line feed ends a line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def number_lines(lines: list[str], *, first: int, limit: int) -> NumberedLines:
    """Return up to `limit` lines from number `first` on, within the size limit of a result."""
    selected = enumerate(lines[first - 1 : first - 1 + min(limit, MAX_LINES)], start=first)
    rows = _rows_that_fit(f"{number:>6}\t{truncate_line(line)}" for number, line in selected)
    return NumberedLines(text="\n".join(rows), first=first, end=first + len(rows), total=len(lines))


def truncate_line(line: str, *, limit: int = MAX_LINE_CHARS) -> str:
    """Return a line cut to `limit` characters, with a note of how many are left out."""
    return line if len(line) <= limit else f"{line[:limit]}… [{len(line) - limit} more characters]"


def rows_result(rows: Sequence[str], *, summary: str, notes: Iterable[str] = ()) -> ToolResult:
    """Return rows as a result, followed by a summary and notes about rows that are left out."""
    kept = _rows_that_fit(rows)
    cut = [f"{len(rows) - len(kept)} more rows are too many to show"] if len(kept) < len(rows) else []
    return ToolResult(content="\n".join([*kept, f"[{'; '.join([summary, *cut, *notes])}]"]))


def pluralize(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


def _rows_that_fit(rows: Iterable[str]) -> list[str]:
    kept: list[str] = []
    remaining_chars = MAX_SHOWN_CHARS
    for row in rows:
        remaining_chars -= len(row) + 1
        if remaining_chars < 0:
            break
        kept.append(row)
    return kept
