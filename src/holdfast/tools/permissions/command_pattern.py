"""Command patterns of `bash` rules.

    git status         this command and nothing else
    git push *         `git push` with anything after it
    npm run test:*     a word may contain a `*`

An allow rule matches a command as written. A deny or ask rule also matches when the program is called by its path or
its options are reordered or combined (`rm -fr` for `rm -rf`), and possibly matches when other options come first.
"""

import re
import shlex
from functools import lru_cache
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.tools.permissions.patterns import RuleMatch
from holdfast.tools.permissions.shell.script import ShellWords

_SHELL_OPERATORS: Final = frozenset("|&;<>()`$\n")
_SHORT_OPTIONS: Final = re.compile(r"-[A-Za-z0-9]+")


class CommandPattern:
    """The commands that a rule matches."""

    def __init__(self, text: str) -> None:
        words = shlex.split(text)
        self._open = words[-1] == "*" and len(words) > 1
        """Whether any words may follow."""
        self._words = words[:-1] if self._open else words
        self._parts = [tuple(word.split("*")) for word in self._words]
        """The texts between the `*` of each word."""
        self._operands = [part for part, word in zip(self._parts, self._words, strict=True) if not _is_option(word)]
        self._options = [option for word in self._words[1:] if _is_option(word) for option in _split_options(word)]

    @property
    def program(self) -> str:
        """The name of the program."""
        return self._words[0]

    @property
    def any_arguments(self) -> bool:
        """Whether it matches every command of its program."""
        return self._open and len(self._words) == 1

    def allows(self, words: ShellWords) -> bool:
        """Return whether the command matches exactly as written."""
        if len(words) < len(self._parts) or (len(words) > len(self._parts) and not self._open):
            return False
        return all(_matches_word(part, word) for part, word in zip(self._parts, words, strict=False))

    def binds(self, words: ShellWords) -> RuleMatch:
        """Return whether the command matches, however its program and options are written."""
        name = words[0]
        if name is None:
            return RuleMatch.MAYBE
        if not (_matches_word(self._parts[0], name) or _matches_word(self._parts[0], name.rpartition("/")[2])):
            return RuleMatch.NO
        if self.allows((self._words[0], *words[1:])):
            return RuleMatch.YES
        return self._match_arguments(words[1:])

    def covers(self, other: "CommandPattern") -> bool:
        """Return whether it allows every command that `other` allows."""
        if other._open and not self._open:
            return False
        return self.allows((*other._words, "*") if other._open else tuple(other._words))

    def _match_arguments(self, words: ShellWords) -> RuleMatch:
        options = {option for word in words if word is not None and _is_option(word) for option in _split_options(word)}
        missing = [option for option in self._options if option not in options]
        unknown = any(word is None for word in words) or any(word.startswith("--") for word in words if word)
        if missing and not unknown:
            return RuleMatch.NO
        match = _match_in_order(self._operands[1:], words, open_=self._open)
        return min(match, RuleMatch.MAYBE if missing else RuleMatch.YES)


command_pattern: Final = lru_cache(maxsize=4096)(CommandPattern)
"""Returns the compiled pattern of a rule."""


def check_command_pattern(text: str) -> None:
    """Raise `Invalid` if no command can match."""
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise Invalid(f"the command is not closed, it has {str(exc).lower()}: close or escape it") from exc
    if not words:
        raise Invalid("there is no command: write one, or `bash` alone for every command")
    if "*" in words[0]:
        raise Invalid("a rule names its program: write `bash` alone for every command")
    if "=" in words[0]:
        raise Invalid("a command begins with its program: variables before it are not part of a rule")
    if not _SHELL_OPERATORS.isdisjoint(text):
        raise Invalid("a rule is about one command: every part of a pipe or list is checked separately")


def _match_in_order(operands: list[tuple[str, ...]], words: ShellWords, *, open_: bool) -> RuleMatch:
    """Return whether the operands occur in this order, with options and possible option values between them."""
    skipped, remaining, after_option = False, list(operands), False
    for word in words:
        if word is None:
            return RuleMatch.MAYBE
        if _is_option(word):
            after_option = True
            continue
        if remaining and _matches_word(remaining[0], word):
            skipped = skipped or after_option
            remaining.pop(0)
        elif not remaining and open_:
            break
        elif after_option:
            skipped = True
        else:
            return RuleMatch.NO
        after_option = False
    if remaining:
        return RuleMatch.NO
    return RuleMatch.MAYBE if skipped else RuleMatch.YES


def _matches_word(texts: tuple[str, ...], word: str | None) -> bool:
    """Return whether a word consists of the texts with anything between them."""
    first, *others = texts
    if word is None or not others:
        return word == first
    *middle, last = others
    position = len(first)
    if not word.startswith(first):
        return False
    for text in middle:
        found = word.find(text, position)
        if found < 0:
            return False
        position = found + len(text)
    return word.endswith(last) and len(word) - len(last) >= position


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _split_options(word: str) -> list[str]:
    """Return the options in a word: `-rf` is `-r` and `-f`."""
    if word.startswith("--") or _SHORT_OPTIONS.fullmatch(word) is None:
        return [word.partition("=")[0]]
    return [f"-{letter}" for letter in word[1:]]
