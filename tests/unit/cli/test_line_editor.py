"""The editor of the line that a person types in `holdfast chat`."""

import re
import sys

import pytest

from holdfast.cli.line_editor import LineEditor

UP, DOWN, LEFT, RIGHT, HOME, END, DELETE = "\x1b[A", "\x1b[B", "\x1b[D", "\x1bOC", "\x1b[H", "\x05", "\x1b[3~"


def typed(*keys: str, ends: list[bool] | None = None) -> list[str]:
    """Return the lines that some keys, sent byte by byte, make."""
    lines: list[str] = []
    editor = LineEditor(on_line=lines.append, on_end=lambda: [] if ends is None else ends.append(True))
    for byte in "".join(keys).encode():
        editor.feed(bytes([byte]))
    return lines


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("hello",), "hello"),
        (("日本語", "\x7f"), "日本"),
        (("helo", LEFT, "l"), "hello"),
        (("ello", HOME, "h", END, "!"), "hello!"),
        (("xhello", HOME, DELETE), "hello"),
        (("hallo", LEFT, LEFT, LEFT, "\x7f", "e", RIGHT, RIGHT, RIGHT, RIGHT, "!"), "hello!"),
        (("rm -rf this", "\x17", "that"), "rm -rf that"),
        (("gone", "\x15", "here"), "here"),
        (("here and there", *[LEFT] * 10, "\x0b"), "here"),
        (("a", "\x1b\r", "b"), "a\nb"),
        (("\x1b[200~one\r\ntwo\x1b]0;x\x07\n\x1b[201~",), "one\ntwo\ufffd]0;x\ufffd"),
        (("a", "\x1b[15~", "\t", "\x00", "b"), "ab"),
    ],
)
def test_keys_edit_the_line(keys: tuple[str, ...], line: str) -> None:
    assert typed(*keys, "\r") == [line]


def test_earlier_lines_come_back() -> None:
    assert typed("one\n", "two\n", UP, UP, UP, "!\n", DOWN, UP, "?\n") == ["one", "two", "one!", "one!?"]
    assert typed("one\n", UP, DOWN, "\n") == ["one", ""]


def test_ctrl_d_ends_an_empty_line_only() -> None:
    ends: list[bool] = []
    assert typed("ab", HOME, "\x04", "\n", "\x04", ends=ends) == ["b"]
    assert ends == [True]


def test_the_row_never_wraps_and_shows_the_cursor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    editor = LineEditor(on_line=lambda _: None, on_end=lambda: None)
    editor.ask("you › ")
    editor.feed("日本語の長い文章です".encode())
    row = capsys.readouterr().out.split("\r\x1b[K")[-1]
    assert row == "you › 長い文章です"
    editor.feed(HOME.encode())
    row = capsys.readouterr().out.split("\r\x1b[K")[-1]
    assert re.fullmatch("you › 日本語の長い\x1b\\[12D", row)


def test_output_is_held_while_a_line_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    begun: list[bool] = []
    editor = LineEditor(on_line=lambda _: None, on_end=lambda: None)
    editor.typing_prompt, editor.before_typing = "steer › ", lambda: begun.append(True)
    editor.feed(b"a")
    assert not editor.free.is_set() and capsys.readouterr().out.endswith("steer › a")
    editor.print_above(lambda: sys.stdout.write("news\n"))
    assert capsys.readouterr().out == "\r\x1b[Knews\n\r\x1b[Ksteer › a"
    editor.feed(b"\x7f")
    assert editor.free.is_set() and capsys.readouterr().out == "\r\x1b[K"
    editor.feed(b"b")
    assert editor.discard() and editor.free.is_set() and not editor.discard()
    assert begun == [True, True]


def test_a_prompt_is_taken_back_when_output_follows(capsys: pytest.CaptureFixture[str]) -> None:
    editor = LineEditor(on_line=lambda _: None, on_end=lambda: None)
    editor.ask("answer › ")
    editor.hide()
    assert capsys.readouterr().out == "\r\x1b[Kanswer › \r\x1b[K"
    editor.feed(b"\n")
    assert capsys.readouterr().out == ""
