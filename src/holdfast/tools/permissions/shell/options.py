"""Command lines as `getopt_long` reads them: short options alone or together, long options and their abbreviations."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.tools.permissions.shell.script import ShellWords


def word_set(text: str) -> frozenset[str]:
    """Return the words of a table."""
    return frozenset(text.split())


class OptionValue(IntEnum):
    """Whether a long option takes a value."""

    NONE = 0
    REQUIRED = 1
    OPTIONAL = 2
    """Only attached: `--name=value`."""


class OptionGrammar:
    """The options of a program."""

    def __init__(
        self,
        *,
        flags: str = "",
        valued: str = "",
        optional: str = "",
        long: str = "",
        runs: Sequence[str] = (),
        negatable: bool = False,
    ) -> None:
        """Name short options without a value, with one, with one only if attached; and long ones.

        A long option is written `name`, `name=` if it has a value, `name=?` if it may have one. Options in `runs` run
        a program. With `negatable`, `--no-name` stands for each `--name`.
        """
        self._flags, self._valued, self._optional = flags, valued, optional
        self.runs, self._negatable = runs, negatable
        self._long: Mapping[str, OptionValue] = {
            name.rstrip("=?"): OptionValue(name.count("=") + name.count("?")) for name in f"{long} help version".split()
        }

    def read(self, words: ShellWords, *, permute: bool = False) -> "OptionReading | None":
        """Return the options and operands of a command line, or null if it cannot be read with certainty.

        Options end at the first operand; with `permute` they may come after operands.
        """
        options: list[tuple[str, str | None]] = []
        operands: list[str | None] = []
        index = 0
        while index < len(words):
            word = words[index]
            if word == "--":
                return OptionReading(options=options, operands=(*operands, *words[index + 1 :]))
            if word is None:
                return None
            if not word.startswith("-") or word == "-":
                if not permute:
                    return OptionReading(options=options, operands=words[index:])
                operands.append(word)
                index += 1
                continue
            taken = self._read_long(word, options) if word.startswith("--") else self._read_short(word, options)
            if taken is None:
                return None
            index += 1
            if taken is OptionValue.REQUIRED:
                if index == len(words) or (value := words[index]) is None:
                    return None
                options[-1] = (options[-1][0], value)
                index += 1
        return OptionReading(options=options, operands=tuple(operands))

    def _read_long(self, word: str, options: list[tuple[str, str | None]]) -> OptionValue | None:
        """Add a long option; return `REQUIRED` if its value is the next word, null if it is unknown or ambiguous."""
        start, equals, value = word[2:].partition("=")
        names = [start] if start in self._long else [name for name in self._long if name.startswith(start)]
        if self._negatable and not equals and start.startswith("no-") and start not in self._long:
            options.append((f"--{start}", None))
            return OptionValue.NONE if any(name.startswith(start[3:]) for name in self._long) else None
        if len(names) != 1:
            return None
        kind = self._long[names[0]]
        if equals and kind is OptionValue.NONE:
            return None
        options.append((f"--{names[0]}", value if equals else None))
        return OptionValue.NONE if equals or kind is OptionValue.OPTIONAL else kind

    def _read_short(self, word: str, options: list[tuple[str, str | None]]) -> OptionValue | None:
        for position, letter in enumerate(word[1:], start=2):
            if letter in self._flags:
                options.append((f"-{letter}", None))
            elif letter in self._valued or letter in self._optional:
                rest = word[position:]
                options.append((f"-{letter}", rest or None))
                return OptionValue.REQUIRED if letter in self._valued and not rest else OptionValue.NONE
            else:
                return None
        return OptionValue.NONE


@lru_cache
def option_grammar(table: str, *, negatable: bool = False) -> OptionGrammar:
    """Return the grammar of a table of options, in the notation of `option_tables`."""
    short: dict[str, str] = {}
    long: dict[str, str] = {}
    for part in table.split("|"):
        letters, *names = part.split()
        letter, seen = "", False
        for char in "" if letters == "-" else letters:
            if char not in ":?!":
                letter, seen = char, char in short
                short.setdefault(letter, "")
            elif not seen:
                short[letter] += char
        for name in names:
            long.setdefault(name.rstrip("=?!"), name)
    running = [f"-{letter}" for letter, value in short.items() if "!" in value]
    running += [f"--{name}" for name, spec in long.items() if "!" in spec]
    return OptionGrammar(
        flags="".join(letter for letter, value in short.items() if not value.strip("!")),
        valued="".join(letter for letter, value in short.items() if ":" in value),
        optional="".join(letter for letter, value in short.items() if "?" in value),
        long=" ".join(spec.rstrip("!") for spec in long.values()),
        runs=running,
        negatable=negatable,
    )


class OptionReading(msgspec.Struct, frozen=True, kw_only=True):
    """A command line: its options in order, each with its value, and its operands."""

    options: Sequence[tuple[str, str | None]]
    operands: ShellWords

    def values(self, *names: str) -> list[str]:
        """Return the values of the options of these names."""
        return [value or "" for name, value in self.options if name in names]

    def has(self, *names: str) -> bool:
        """Return whether an option of one of these names is present."""
        return any(name in names for name, _ in self.options)


MIN_ABBREVIATION_CHARS: Final = 3
"""Characters of the shortest abbreviation of a long option: `--e`."""


def may_have_option(words: ShellWords, names: Sequence[str]) -> bool:
    """Return whether a command line may have one of these options, however the rest of it is read.

    It is used where only the presence of an option matters: every abbreviation of a long option, and a short one
    anywhere in a word of short options, counts. A word known only at run time may be anything.
    """
    long = [name for name in names if name.startswith("--")]
    short = [name[1:] for name in names if not name.startswith("--")]
    for word in words:
        if word is None:
            return True
        if word.startswith("--"):
            start = word.partition("=")[0]
            if len(start) >= MIN_ABBREVIATION_CHARS and any(name.startswith(start) for name in long):
                return True
        elif word.startswith("-") and any(letters in word[1:] for letters in short):
            return True
    return False
