"""What a shell command runs: exactly if it is in the small grammar, else everything that it could spell out."""

from functools import lru_cache
from typing import Final

from holdfast.tools.permissions.shell.grammar import OutsideGrammar, is_harmless_device, program_problem, read_commands
from holdfast.tools.permissions.shell.scan import (
    MAX_SCANNED_CHARS,
    MAX_SCANNED_WORDS,
    ScannedCommand,
    scan_commands,
    scan_names,
)
from holdfast.tools.permissions.shell.script import Redirection, ShellProgram, ShellScript, ShellWords
from holdfast.tools.permissions.shell.wrappers import nested_commands

MAX_NESTING: Final = 8
"""Levels of commands within the words of commands, as in `env nice bash -c "eval …"`."""
MAX_PROGRAMS: Final = 5_000
"""Programs of one command, with all that it could spell out."""

MAX_JOINED_OPTIONS: Final = 4
"""Short options in one word, in front of a value, that are taken into account."""


@lru_cache(maxsize=512)
def parse_script(command: str) -> ShellScript:
    """Return everything that a shell command does."""
    reader = _ScriptReader()
    reader.add_code(command, level=0)
    return reader.script()


class _ScriptReader:
    """Collects the programs, redirections and unclear parts of one command."""

    def __init__(self) -> None:
        self._programs: list[ShellProgram] = []
        self._possible: dict[ShellWords, None] = {}
        self._redirections: dict[Redirection, None] = {}
        self._unclear: dict[str, None] = {}
        self._code: dict[str, None] = {}
        self._cwd_changed = False

    def script(self) -> ShellScript:
        """Return what was collected."""
        if self._cwd_changed and any(_is_relative(program.words[0]) for program in self._programs):
            self._unclear["a program by its relative path after a change of the folder"] = None
        return ShellScript(
            programs=tuple(self._programs),
            possible=tuple(self._possible),
            redirections=tuple(self._redirections),
            cwd_changed=self._cwd_changed,
            unclear=tuple(self._unclear),
            code=tuple(self._code),
        )

    def add_code(self, code: str, *, level: int) -> None:
        """Read shell code, `level` deep in the words of other commands."""
        self._code[code] = None
        try:
            commands = read_commands(code)
        except OutsideGrammar as outside:
            self._unclear[str(outside)] = None
            if len(code) > MAX_SCANNED_CHARS:
                self._unclear[f"more than {MAX_SCANNED_CHARS:,} characters"] = None
            for scanned in scan_commands(code):
                self._add_possible(scanned, level=level)
            if len(self._possible) >= MAX_PROGRAMS:
                self._possible |= {(name, None): None for name in scan_names(code)}
            return
        for command in commands:
            self._add_redirections(command.redirections)
            self._add_program(command.words, level=level)

    def _add_program(self, words: ShellWords, *, level: int) -> None:
        problem = "a program that is only known at run time" if words[0] is None else program_problem(words[0])
        if level > MAX_NESTING or len(self._programs) >= MAX_PROGRAMS:
            problem = "too many commands"
        if problem is not None:
            self._unclear[problem] = None
            self._add_words_that_may_run(words, level=level)
            return
        nested = nested_commands(words)
        self._programs.append(
            ShellProgram(
                words=words,
                transparent=nested.transparent,
                opaque=nested.opaque,
                may_run_words=nested.opaque or nested.unknown,
            )
        )
        self._cwd_changed = self._cwd_changed or nested.changes_folder
        self._add_redirections(nested.redirections)
        if nested.unclear is not None:
            self._unclear[nested.unclear] = None
        self._add_words_that_may_run(nested.may_run, level=level)
        if nested.code is not None:
            self.add_code(nested.code, level=level + 1)
        for command in nested.commands:
            self._add_program(command, level=level + 1)

    def _add_possible(self, scanned: ScannedCommand, *, level: int) -> None:
        """Add a command that may run, and what that would run."""
        words = scanned.words
        self._add_redirections(scanned.redirections)
        if not words or words in self._possible or level > MAX_NESTING or len(self._possible) >= MAX_PROGRAMS:
            return
        self._possible[words] = None
        if words[0] is None or words[0].startswith("-"):
            self._add_words_that_may_run(words[1:], level=level)
            return
        nested = nested_commands(words)
        self._cwd_changed = self._cwd_changed or nested.changes_folder
        self._add_words_that_may_run(nested.may_run, level=level)
        if nested.code is not None:
            self._add_words_that_may_run(words[1:], level=level)
            for inner in scan_commands(nested.code):
                self._add_possible(inner, level=level + 1)
        for command in nested.commands:
            self._add_possible(ScannedCommand(command, nested.redirections), level=level + 1)

    def _add_words_that_may_run(self, words: ShellWords, *, level: int) -> None:
        """Add every command that could begin with one of these words, or be code in one of them."""
        for index, word in enumerate(words):
            if word is None or len(self._possible) >= MAX_PROGRAMS:
                continue
            self._possible[words[index : index + MAX_SCANNED_WORDS]] = None
            # The value of an option: `--name=value`, `-abcvalue`, or an alias `name=!value`.
            values = {word, word.rpartition("=")[2].lstrip("!")}
            values |= {word[start:] for start in range(2, MAX_JOINED_OPTIONS + 2)} if word.startswith("-") else set()
            for scanned in (each for value in values for each in scan_commands(value) if level < MAX_NESTING):
                if scanned.words != (word,):
                    self._add_possible(scanned, level=level + 1)
                    self._add_words_that_may_run(scanned.words[1:], level=level + 1)

    def _add_redirections(self, redirections: tuple[Redirection, ...]) -> None:
        for one in redirections:
            if one.path is None or not is_harmless_device(one.path):
                self._redirections[one] = None


def _is_relative(program: str | None) -> bool:
    return program is not None and "/" in program and not program.startswith("/")
