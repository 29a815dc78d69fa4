"""Numbers in the shell: a variable that is calculated with is run as code, unless it is known to hold a number."""

import re
from typing import TYPE_CHECKING, Final

from holdfast.tools.permissions.shell.words import literal, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_NUMBER: Final = re.compile(r"-?[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALWAYS: Final = frozenset({"#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS"})
_COMPARES: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})


class Numbers:
    """Which variables are calculated with, and what they are set to."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._wild: set[str] = set()
        self._set: set[str] = set()
        self._unknown = False

    def assign(self, name: str, value: "Node | None") -> None:
        """Note what a variable is set to."""
        self._set.add(name)
        if not _is_number(value):
            self._wild.add(name)

    def spoil(self, name: str) -> None:
        """Note that a variable may hold anything."""
        self._wild.add(name)

    def spoil_all(self) -> None:
        """Note that every variable may: they are set where that is not seen."""
        self._unknown = True

    def calculate(self, node: "Node") -> None:
        """Note which variables a calculation uses."""
        if node.type == "test_command" and not _compares(node):
            return
        self._use(node)

    def doubtful(self) -> list[str]:
        """Return the variables that may hold something else than a number."""
        sure = set() if self._unknown else self._set - self._wild
        return sorted(self._used - sure - _ALWAYS)

    def _use(self, node: "Node") -> None:
        for child in node.named_children:
            if child.type in ("do_group", "command_substitution", "compound_statement"):
                continue
            text = text_of(child)
            if child.type in ("variable_name", "special_variable_name") or (
                child.type == "word" and _NAME.fullmatch(text)
            ):
                self._used.add(text)
            elif child.type in ("word", "string", "raw_string", "ansi_c_string", "concatenation", "expansion"):
                self._use_text(child)
            if child.type == "command_substitution":
                self._used.add("$(…)")
            self._use(child)

    def _use_text(self, node: "Node") -> None:
        said = literal(node)
        if said is None and not node.named_child_count or said is not None and not _NUMBER.fullmatch(said):
            self._used.add(text_of(node))


def _compares(node: "Node") -> bool:
    """Say whether a test calculates; one in single brackets does so only to look for a variable."""
    operators = _COMPARES if text_of(node).startswith("[[") else {"-v", "-R"}
    return any(word in operators for word in re.split(r"\s+", text_of(node)))


def _is_number(value: "Node | None") -> bool:
    if value is None or value.type == "arithmetic_expansion":
        return True
    said = literal(value)
    return said is not None and _NUMBER.fullmatch(said) is not None
