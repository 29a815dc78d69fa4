"""The small grammar of shell commands that a rule can allow, and its strict reader.

    script       newlines? command ((`|` | `&&` | `||`) newlines? command | (`;` | newlines) command)* (`;` | newlines)?
    command      program (word | redirection)*, with redirections before the program too
    word         parts without a blank between them: plain characters, 'text', "text", `$NAME`, `${NAME}`, `$?`,
                 patterns (`*` `?` `[…]`) and `~`; or one of `{}` `\\;` `\\(` `\\)` `\\!` alone
    "text"       anything but `$` (except in front of a name), backticks, and a backslash that escapes something
    redirection  [digit] (`<` | `>` | `>>`) plain path, or [digit]`>&`digit, after a blank or an operator

Nothing in it runs code that is not a program of its own, and no two shells read it differently. Everything else is
outside: the reader never guesses, it names the construct. The guide on permissions describes the grammar for people.
"""

import re
from typing import Final

import msgspec

from holdfast.tools.permissions.shell.script import FileAccess, Redirection, ShellWords

MAX_SCRIPT_CHARS: Final = 20_000
"""Characters of a command that is read; a longer one is outside of the grammar."""


class OutsideGrammar(Exception):
    """A command is not in the grammar; the message names the construct."""


class SimpleCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A program with its words and redirections."""

    connector: str
    """The operator before it: `|`, `&&`, `||`, or `;` for a newline, too."""
    words: ShellWords
    source: tuple[str, ...]
    """The words as they are written."""
    redirections: tuple[Redirection, ...] = ()
    duplications: tuple[str, ...] = ()
    """Redirections of one descriptor to another, such as `2>&1`."""


_VARIABLE: Final = r"\$(?:[A-Za-z_][A-Za-z0-9_]+|[A-Za-z]|\{(?:[A-Za-z_][A-Za-z0-9_]+|[A-Za-z])\}|\?)"
_WORD_END: Final = r"(?=[ \t\n;|&]|\Z)"
_TOKEN: Final = re.compile(
    rf"""(?P<blank>[ \t]+)
    | (?P<newline>\n)
    | (?P<operator>\|\|(?!\|) | && | \|(?![|&]) | ;(?![;&]))
    | (?P<duplication>(?<![^ \t\n;|&])[0-9]?>&[0-9]{_WORD_END})
    | (?P<redirect>(?<![^ \t\n;|&])[0-9]?(?:>>|>|<)(?![<>&|(]))
    | (?P<alone>(?<![^ \t\n;|&])(?:\{{\}}|\\[;()!]){_WORD_END})
    | (?P<plain>(?:[A-Za-z0-9_./:@%^+,=!-]|[^\x00-\x7f])+)
    | (?P<hash>(?<=[^ \t\n;|&])\#)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\(?![$`"\\\n])|{_VARIABLE})*)"
    | (?P<variable>{_VARIABLE})
    | (?P<pattern>[*?\[\]])
    | (?P<tilde>~)""",
    re.VERBOSE,
)
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*|\[|:")
_PLAIN_PATH: Final = re.compile(r"[^\x00-\x1f\x7f$`*?\[\]{}\\'\"<>|&;()!#~]+")
_NETWORK_DEVICE: Final = re.compile(r"/dev/+(tcp|udp)(/.*)?", re.DOTALL)
_HARMLESS_DEVICE: Final = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|zero|full|random|urandom)")
_RESERVED_WORDS: Final = frozenset(
    {
        "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "in", "select", "then", "until", "while",
    }
)  # fmt: skip
_LONE_DOLLAR: Final = "a `$` that is not in front of a name"
_BRACKETS: Final = frozenset({"[", "]", "[[", "]]"})
"""Words that are no patterns, although they have the characters of one."""
_CONSTRUCTS: Final = (
    ("$((", "arithmetic"),
    ("$[", "arithmetic"),
    ("$(", "a command substitution"),
    ("`", "a command substitution"),
    ("${", "an expansion other than `${NAME}`"),
    ("$'", "a `$'…'` quote"),
    ('$"', 'a `$"…"` quote'),
    ("$", _LONE_DOLLAR),
    ("<<<", "a here-string"),
    ("<<", "a here-document"),
    ("<(", "a process substitution"),
    (">(", "a process substitution"),
    ("((", "arithmetic"),
    ("(", "a subshell, an array or a function"),
    (")", "a closing bracket"),
    ("{", "braces"),
    ("}", "braces"),
    ("\\", "a backslash"),
    ("#", "a comment"),
    ("|&", "`|&`"),
    (";;", "`;;`"),
    (";&", "`;&`"),
    ("&>", "`&>`"),
    ("&", "a command in the background"),
    (">", "a redirection that is not one of `<`, `>`, `>>` and `2>&1` after a blank"),
    ("<", "a redirection that is not one of `<`, `>`, `>>` and `2>&1` after a blank"),
    ("'", "a quote that is not closed"),
    ('"', "a quote that is not closed"),
)
"""What the text at a place where the grammar ends stands for, the longest first."""


def read_commands(text: str, *, max_chars: int = MAX_SCRIPT_CHARS) -> tuple[SimpleCommand, ...]:
    """Return the commands of a script in their order.

    Raises:
        OutsideGrammar: the script is not in the grammar.

    """
    if len(text) > max_chars:
        raise OutsideGrammar(f"more than {max_chars:,} characters")
    for char in text:
        if (char.isspace() or not char.isprintable()) and char not in " \t\n":
            raise OutsideGrammar(f"the invisible character U+{ord(char):04X}")
    return _Reader(text).read()


class _Reader:
    """Reads one script from the left to the right, once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._commands: list[SimpleCommand] = []
        self._connector = ""
        self._words: list[str | None] = []
        self._source: list[str] = []
        self._redirections: list[Redirection] = []
        self._duplications: list[str] = []
        self._redirect: FileAccess | None = None
        """The access of a redirection whose path comes next."""
        self._parts: list[str] | None = None
        """The parts of the current word; null between words."""
        self._word_start = 0
        self._known = True
        """Whether the parts are what the program receives."""

    def read(self) -> tuple[SimpleCommand, ...]:
        position = 0
        while position < len(self._text):
            token = _TOKEN.match(self._text, position)
            if token is None:
                raise OutsideGrammar(_construct(self._text, position))
            self._take(token)
            position = token.end()
        self._end_command("")
        if self._connector not in ("", ";"):
            raise OutsideGrammar(f"`{self._connector}` without a command after it")
        if not self._commands:
            raise OutsideGrammar("an empty command")
        return tuple(self._commands)

    def _take(self, token: re.Match[str]) -> None:
        kind, text = token.lastgroup, token[0]
        match kind:
            case "blank":
                self._end_word(token.start())
            case "newline":
                self._end_word(token.start())
                self._end_command("\n")
            case "operator":
                self._end_word(token.start())
                self._end_command(text)
            case "duplication":
                self._expect_no_redirect()
                self._duplications.append(text if text[0].isdigit() else f"1{text}")
            case "redirect":
                self._expect_no_redirect()
                self._redirect = FileAccess.READ if text.endswith("<") else FileAccess.WRITE
            case "alone":
                self._add_part(token, text.removeprefix("\\"))
            case "single" | "double":
                value = token[kind]
                self._add_part(token, value, known=kind == "single" or "$" not in value)
            case "variable" | "pattern":
                self._add_part(token, text, known=False)
            case "tilde":
                # A tilde is expanded at the start of a word, and after the `=` or `:` of something like an assignment.
                inside = self._parts is not None and self._text[token.start() - 1] not in "=:'\""
                self._add_part(token, text, known=inside)
            case _:
                self._add_part(token, text)

    def _add_part(self, token: re.Match[str], value: str, *, known: bool = True) -> None:
        if self._parts is None:
            self._parts, self._word_start, self._known = [], token.start(), True
        self._parts.append(value)
        self._known = self._known and known

    def _end_word(self, end: int) -> None:
        if self._parts is None:
            return
        source = self._text[self._word_start : end]
        value = "".join(self._parts) if self._known or source in _BRACKETS else None
        self._parts = None
        if self._redirect is not None:
            self._add_redirection(value)
        else:
            self._words.append(value)
            self._source.append(source)

    def _add_redirection(self, path: str | None) -> None:
        access, self._redirect = self._redirect, None
        assert access is not None
        if path is None or _PLAIN_PATH.fullmatch(path) is None:
            raise OutsideGrammar("a redirection to a path that is not plain")
        if _NETWORK_DEVICE.fullmatch(path):
            raise OutsideGrammar("a redirection to the network")
        self._redirections.append(Redirection(path=path, access=access))

    def _expect_no_redirect(self) -> None:
        if self._redirect is not None:
            raise OutsideGrammar("a redirection without a path")

    def _end_command(self, operator: str) -> None:
        """End the current command; a newline after an operator continues the list, and an empty line is nothing."""
        if operator == "":
            self._end_word(len(self._text))
        self._expect_no_redirect()
        if not self._words:
            if self._redirections or self._duplications:
                raise OutsideGrammar("a redirection without a program")
            if operator not in ("", "\n"):
                raise OutsideGrammar(f"`{operator}` without a command before it")
            return
        _check_program(self._words[0], self._source[0])
        self._commands.append(
            SimpleCommand(
                connector=self._connector,
                words=tuple(self._words),
                source=tuple(self._source),
                redirections=tuple(self._redirections),
                duplications=tuple(self._duplications),
            )
        )
        self._words, self._source, self._redirections, self._duplications = [], [], [], []
        self._connector = ";" if operator == "\n" else operator


def _check_program(program: str | None, source: str) -> None:
    if "=" in source:
        raise OutsideGrammar("an assignment")
    if program is None:
        raise OutsideGrammar("a program that is only known at run time")
    problem = program_problem(program)
    if problem is not None:
        raise OutsideGrammar(problem)


def program_problem(program: str) -> str | None:
    """Return why a word cannot be a program of the grammar, or null."""
    if program in _RESERVED_WORDS:
        return f"`{program}`"
    return "an unusual name of a program" if _PROGRAM.fullmatch(program) is None else None


def _construct(text: str, position: int) -> str:
    """Return the name of the construct at which the grammar ends."""
    if text[position] == '"':
        # The first thing in the quotes that the grammar does not have.
        inside = re.compile(rf"(?:[^\"\\$`]|\\(?![$`\"\\\n])|{_VARIABLE})*").match(text, position + 1)
        if inside is not None and inside.end() < len(text):
            position = inside.end()
            if text[position : position + 2] in ('$"', "$'"):
                return _LONE_DOLLAR
    return next((name for start, name in _CONSTRUCTS if text.startswith(start, position)), f"`{text[position]}`")


def is_harmless_device(path: str) -> bool:
    """Return whether everybody may open a device."""
    return _HARMLESS_DEVICE.fullmatch(path) is not None
