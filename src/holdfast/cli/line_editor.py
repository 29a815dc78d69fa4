"""A line editor for a terminal on which output goes on while a person types.

The terminal echoes nothing: while a line is being typed, it stands on a row of its own and output waits; otherwise the
row is free. A pasted text is one line, with its line breaks.
"""

import asyncio
import codecs
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.cells import cell_len

from holdfast.cli.output import strip_control_chars

_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_KEY: Final = re.compile(r"\x1b(?:\[[0-9;]*[@-~]|O[A-Z]|[^\[O])|[^\x1b]")
"""One key: an escape sequence, or a character."""
_CLEAR_ROW: Final = "\r\x1b[K"
_LINE_BREAK: Final = "⏎"
"""Shown in place of a line break."""


class LineEditor:
    """The line that a person types: its text, the cursor, and the lines typed before."""

    def __init__(self, *, on_line: Callable[[str], object], on_end: Callable[[], object]) -> None:
        """`on_line` gets each line without its end, `on_end` is called for Ctrl-D on an empty line."""
        self._on_line = on_line
        self._on_end = on_end
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unread = ""
        self._text = ""
        self._cursor = 0
        self._prompt = ""
        self._history: list[str] = []
        self._at = 0
        """The place in the history that is shown; its length is the new line."""
        self._pasting = False
        self._modes: list[Any] = []
        """The modes of the terminal before."""
        self.free = asyncio.Event()
        """Set while no line is being typed: output may be shown."""
        self.free.set()
        self.typing_prompt = ""
        """Shown before a line that is typed without a prompt."""
        self.before_typing: Callable[[], object] = lambda: None
        """Called before the row of a line is first shown."""

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Take the keys of the terminal one by one, without echo."""
        import termios
        import tty

        terminal = sys.stdin.fileno()
        self._modes = termios.tcgetattr(terminal)
        tty.setcbreak(terminal, termios.TCSADRAIN)
        _write(_PASTE_ON)
        try:
            yield
        finally:
            _write(_PASTE_OFF)
            termios.tcsetattr(terminal, termios.TCSADRAIN, self._modes)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Give the terminal to another program."""
        import termios

        terminal = sys.stdin.fileno()
        ours = termios.tcgetattr(terminal)
        _write(_PASTE_OFF)
        termios.tcsetattr(terminal, termios.TCSADRAIN, self._modes)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, ours)
            _write(_PASTE_ON)

    def ask(self, prompt: str) -> None:
        """Show a prompt, with what is typed already."""
        self._prompt = prompt
        self._show()

    def hide(self) -> None:
        """Take back a prompt that nothing was typed at, because output follows."""
        if self._prompt and not self._text:
            _write(_CLEAR_ROW)
        if not self._text:
            self._prompt = ""

    def print_above(self, show: Callable[[], object]) -> None:
        """Show something above the row of the line."""
        shown = bool(self._prompt or self._text)
        if shown:
            _write(_CLEAR_ROW)
        show()
        if shown:
            self._show()

    def discard(self) -> bool:
        """Forget the line that is being typed; return whether there was one."""
        if not self._text:
            return False
        self._set("")
        return True

    def feed(self, data: bytes) -> None:
        """Handle the bytes of keys."""
        self._unread += self._decoder.decode(data)
        while self._unread:
            if self._pasting:
                if not self._paste():
                    return
            elif (key := _KEY.match(self._unread)) is None:
                return  # the rest of an escape sequence follows
            else:
                self._unread = self._unread[key.end() :]
                self._key(key[0])

    def _paste(self) -> bool:
        """Insert a pasted text; return false while its end is missing."""
        pasted, end, rest = self._unread.partition(_PASTE_END)
        if not end:
            return False
        self._unread, self._pasting = rest, False
        self._insert(strip_control_chars(pasted.replace("\r\n", "\n").replace("\r", "\n")).rstrip("\n"))
        return True

    def _key(self, key: str) -> None:
        match key:
            case "\r" | "\n":
                self._enter()
            case "\x04" if not self._text:
                _write("\n")
                self._on_end()
            case "\x1b[A" | "\x1bOA" | "\x10":
                self._recall(self._at - 1)
            case "\x1b[B" | "\x1bOB" | "\x0e":
                self._recall(self._at + 1)
            case "\x1b\r" | "\x1b\n":  # Alt-Return
                self._insert("\n")
            case _ if key == _PASTE_START:
                self._pasting = True
            case _ if key in _EDITS:
                self._set(*_EDITS[key](self._text, self._cursor))
            case _ if key.isprintable():
                self._insert(key)
            case _:  # a key that means nothing here
                pass

    def _enter(self) -> None:
        line = self._text
        if line.strip() and line not in self._history[-1:]:
            self._history.append(line)
        self._at = len(self._history)
        if self._prompt or line:
            self._show(whole=True)
            _write("\n")
        self._text, self._cursor, self._prompt = "", 0, ""
        self.free.set()
        self._on_line(line)

    def _recall(self, at: int) -> None:
        if 0 <= at <= len(self._history):
            line = self._history[at] if at < len(self._history) else ""
            self._set(line, len(line))
            self._at = at

    def _insert(self, text: str) -> None:
        at = self._cursor
        self._set(self._text[:at] + text + self._text[at:], at + len(text))

    def _set(self, text: str, cursor: int = 0) -> None:
        begins = bool(text) and not self._text
        if begins and not self._prompt:
            self.before_typing()
            self._prompt = self.typing_prompt
        ends = bool(self._text) and not text and self._prompt == self.typing_prompt
        self._text, self._cursor = text, cursor
        if ends:  # nothing asked for the line
            _write(_CLEAR_ROW)
            self._prompt = ""
        else:
            self._show()
        self.free.clear() if text else self.free.set()

    def _show(self, *, whole: bool = False) -> None:
        """Draw the row: the prompt, and as much of the text around the cursor as fits; or the `whole` of it."""
        shown = self._text.replace("\n", _LINE_BREAK)
        if whole:
            _write(f"{_CLEAR_ROW}{self._prompt}{shown}")
            return
        room = max(_columns() - cell_len(self._prompt) - 1, 8)
        start = 0
        while cell_len(shown[start : self._cursor]) > room:
            start += 1
        end = len(shown)
        while cell_len(shown[start:end]) > room:
            end -= 1
        back = cell_len(shown[self._cursor : end])
        _write(f"{_CLEAR_ROW}{self._prompt}{shown[start:end]}" + (f"\x1b[{back}D" if back else ""))


def _without_word(text: str, at: int) -> tuple[str, int]:
    before = text[:at].rstrip()
    kept = before[: before.rfind(" ") + 1]
    return kept + text[at:], len(kept)


_EDITS: Final[dict[str, Callable[[str, int], tuple[str, int]]]] = {
    **dict.fromkeys(("\x7f", "\x08"), lambda text, at: (text[: max(at - 1, 0)] + text[at:], max(at - 1, 0))),
    **dict.fromkeys(("\x04", "\x1b[3~"), lambda text, at: (text[:at] + text[at + 1 :], at)),
    "\x15": lambda text, at: (text[at:], 0),  # Ctrl-U
    "\x0b": lambda text, at: (text[:at], at),  # Ctrl-K
    "\x17": _without_word,
    **dict.fromkeys(("\x1b[D", "\x1bOD", "\x02"), lambda text, at: (text, max(at - 1, 0))),
    **dict.fromkeys(("\x1b[C", "\x1bOC", "\x06"), lambda text, at: (text, min(at + 1, len(text)))),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~", "\x01"), lambda text, at: (text, 0)),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~", "\x05"), lambda text, at: (text, len(text))),
}
"""The keys that change the text or move the cursor: from both to both."""


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
