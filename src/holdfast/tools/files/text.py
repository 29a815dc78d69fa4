"""The text of a file, and how it becomes the bytes of that file again: what is not changed stays as it was.

UTF-8, with or without a mark, and UTF-16 with a mark are known by what they are. Nothing else is guessed.
"""

import codecs
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import WorkingPath

MAX_FILE: Final = 16 * 1024 * 1024
"""Bytes of a file that is read."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says, line by line. Where every line of it ends with CRLF, that is left out here."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    crlf: bool = False

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.mark + self.piece(self.text)

    def piece(self, text: str) -> bytes:
        """Return the bytes that a part of it has in the file."""
        return (text.replace("\n", "\r\n") if self.crlf else text).encode(self.encoding)

    @property
    def kind(self) -> str:
        """How it is written, in words; nothing where that is as usual."""
        words = [] if (self.encoding, self.mark) == ("utf-8", b"") else [self.encoding.upper(), "with a mark"]
        return " ".join([*words, "with CRLF line ends"] if self.crlf else words)


def decoded(content: bytes, path: WorkingPath) -> Text:
    """Return what a file says, or raise `Invalid` if it is no text that can be read for certain."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if content.startswith(mark)), (b"", "utf-8"))
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as exc:
        raise Invalid(_unreadable(content, path, exc.start + len(mark)), path=path) from exc
    if "\x00" in text:
        raise Invalid(f"`{path}` is binary ({len(content)} bytes): it has no text to read", path=path)
    crlf = "\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
    return Text(text=text.replace("\r\n", "\n") if crlf else text, encoding=encoding, mark=mark, crlf=crlf)


def _unreadable(content: bytes, path: WorkingPath, at: int) -> str:
    if b"\x00" in content:
        return f"`{path}` is binary ({len(content)} bytes): it has no text to read"
    return (
        f"`{path}` is neither UTF-8 nor marked as UTF-16 (byte {at + 1} is no text), and its encoding is not guessed: "
        "if it is text, have it converted to UTF-8 first"
    )
