"""The scan of a command outside of the grammar: every program that it could spell out, at any depth.

Deny rules look here. The scan does not decide what is code and what is text, because that is what parsers disagree on:
whatever stands where a command could begin counts as one, in quotes and here-documents too. It may find programs that
do not run, never fewer than the text spells out. A name that is put together at run time cannot be found: no rule
allows such a command, and the sandbox masks denied programs.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.tools.permissions.shell.script import FileAccess, Redirection, ShellWords

MAX_SCANNED_CHARS: Final = 200_000
MAX_SCANNED_WORDS: Final = 64
"""Words of one command that are compared; the others count as unknown."""


class ScannedCommand(NamedTuple):
    """A possible command."""

    words: ShellWords
    redirections: tuple[Redirection, ...]


_CONTINUATION: Final = re.compile(r"\\\n")
_ANSI_ESCAPE: Final = re.compile(
    r"\\(?:x\{?(?P<hex>[0-9A-Fa-f]{1,2})\}?|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})"
    r"|(?P<octal>[0-7]{1,3})|c.|(?P<plain>.))",
    re.DOTALL,
)
_ANSI_QUOTED: Final = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\([$`\"\\])")
_BLANK_ESCAPES: Final = dict.fromkeys("abefnrtvE", "\n") | dict.fromkeys("'\"", "")
_QUOTE_CHARS: Final = re.compile(r"(?:\\{0,8}\$)?\\{0,8}['\"]|\\(?=[^\n])")
_QUOTED: Final = re.compile(r"\\(.)|\$?'([^']*)'|\$?\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_BRACE_LIST: Final = re.compile(r"\{[^{}\s]*\}")
_SEPARATOR: Final = re.compile(r"[\n\r;|()`]|&|\$\{[A-Za-z0-9_@*#?!]*:?[-+=?]|\{(?!\})|(?<!\{)\}")
_TO_FILE: Final = re.compile(r"(?<=>)[|&]")
_SINGLE_QUOTED: Final = re.compile(r"\$?'([^'\n]*)'")
_DUPLICATION: Final = re.compile(r"[0-9]{0,4}[<>]&[0-9-]{1,4}")
_REDIRECTION: Final = re.compile(r"[0-9]{0,4}(<<<|<<-?|>>|<>|>|<)")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_PREFIX_WORDS: Final = frozenset(
    {"!", "do", "then", "else", "elif", "if", "while", "until", "time", "coproc", "function", "in", "#"}
)
_UNKNOWN: Final = re.compile(r"[$*?\[\]{}~]")
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_HIDDEN_OFFSET: Final = 0xE000
_HIDE: Final = {code: _HIDDEN_OFFSET + code for code in b" \t\n\r;&|()`<>{}$*?[]~"}
"""Stands for the characters that lose their meaning in quotes, as private characters of Unicode."""
_SHOW: Final = {hidden: code for code, hidden in _HIDE.items()}


def scan_commands(text: str) -> Iterator[ScannedCommand]:
    """Yield every command that a text could contain, each once."""
    seen: set[str] = set()
    found: set[ScannedCommand] = set()
    for reading in dict.fromkeys(_readings(_DUPLICATION.sub(" ", text[:MAX_SCANNED_CHARS]))):
        # With quotes that hide what is in them, as if there were no quotes, and as if they only joined words.
        unquoted = _QUOTE_CHARS.sub("", reading)
        listed = _BRACE_LIST.sub(lambda braces: braces[0].replace(",", " "), unquoted)
        joined = _QUOTE_CHARS.sub("", _SINGLE_QUOTED.sub(_hide_blanks, reading))
        for version in dict.fromkeys((_QUOTED.sub(_hide_quoted, reading), unquoted, listed, joined)):
            for segment in _SEPARATOR.split(version):
                if segment in seen:
                    continue
                seen.add(segment)
                command = _read_segment(segment)
                if command not in found and (command.words or command.redirections):
                    found.add(command)
                    yield command


def scan_names(text: str) -> set[str]:
    """Return every name in a text, without regard to its place, however it is quoted."""
    readings = dict.fromkeys(_readings(text[:MAX_SCANNED_CHARS]))
    return {name for reading in readings for name in _NAME.findall(_QUOTE_CHARS.sub("", reading))}


def _readings(text: str) -> Iterator[str]:
    """Yield a text as it is after some of the replacements that a shell makes first, for every way to read it."""
    # Behind another backslash, and in a comment, a backslash does not continue the line.
    for joined in dict.fromkeys((_CONTINUATION.sub("", text), _CONTINUATION.sub("\n", text))):
        yield joined
        yield _TO_FILE.sub("", joined)
        if "$'" in joined:
            yield _ANSI_QUOTED.sub(lambda quoted: _ANSI_ESCAPE.sub(_decode_escape, quoted[0]), joined)
            for escaped in (joined, joined.replace("\\\\", "\\")):  # once more escaped, in the quotes of other code
                yield _ANSI_ESCAPE.sub(_decode_escape, escaped)


def _read_segment(segment: str) -> ScannedCommand:
    words: list[str | None] = []
    redirections: list[Redirection] = []
    operator = ""
    spaced = _REDIRECTION.sub(r" \1 ", segment) if "<" in segment or ">" in segment else segment
    for token in spaced.split():
        if _REDIRECTION.fullmatch(token):
            operator = token
        elif operator:
            if not operator.startswith("<<"):
                access = FileAccess.READ if operator == "<" else FileAccess.WRITE
                redirections.append(Redirection(path=_word_value(token), access=access))
            operator = ""
        elif words or not (token in _PREFIX_WORDS or _ASSIGNMENT.match(token)):
            words.append(_word_value(token))
    if len(words) > MAX_SCANNED_WORDS:
        words = [*words[:MAX_SCANNED_WORDS], None]
    return ScannedCommand(tuple(words), tuple(redirections))


def _word_value(token: str) -> str | None:
    """Return a word, or null if a part of it is only known at run time."""
    return None if token != "{}" and _UNKNOWN.search(token) else token.translate(_SHOW)


def _hide_quoted(quoted: re.Match[str]) -> str:
    escaped, single, double = quoted.groups()
    text: str = next(part for part in (escaped, single, double) if part is not None)
    return (_ESCAPED_IN_QUOTES.sub(r"\1", text) if double is not None else text).translate(_HIDE)


def _hide_blanks(quoted: re.Match[str]) -> str:
    return quoted[1].replace(" ", chr(_HIDDEN_OFFSET + ord(" "))).replace("\t", chr(_HIDDEN_OFFSET + ord("\t")))


def _decode_escape(escape: re.Match[str]) -> str:
    code = escape["hex"] or escape["short"] or escape["long"]
    number = int(code, 16) if code else int(escape["octal"], 8) if escape["octal"] else None
    if number is None:
        return _BLANK_ESCAPES.get(escape["plain"] or "", escape[0])
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE100 else ""
