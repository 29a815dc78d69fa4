"""Words and variables of a shell command: literal values, safe assignments, and arithmetic.

A word is as the program receives it, or null where only the shell knows. A variable used in arithmetic is evaluated
as code unless it is known to hold a number.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

if TYPE_CHECKING:
    from tree_sitter import Node


_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\(\n|[$`\"\\])")
_ANSI_ESCAPE: Final = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})"
    r"|(?P<octal>[0-7]{1,3})|c(?P<control>.)|(?P<plain>.))",
    re.DOTALL,
)
_SIMPLE_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
} | {letter: letter for letter in "\\'\"?"}
_EXPANSION_CHARS: Final = re.compile(r"[*?\[\]]|^~|[:=]~|[{}]")
"""What the shell replaces in a word that is not quoted."""


def literal_word(node: "Node") -> str | None:
    """Return a word as the program gets it, or null where that depends on what the shell finds when it runs."""
    match node.type:
        case "word" | "number" | "variable_name" | "test_operator" | "special_variable_name":
            return _unquote(node)
        case "raw_string":
            return node_text(node)[1:-1]
        case "string":
            return _unquote_string(node)
        case "ansi_c_string":
            return _decode_ansi(node_text(node)[2:-1])
        case "concatenation":
            return _join_parts(node)
        case _:
            return None


def node_text(node: "Node") -> str:
    """Return a node as it is written."""
    return (node.text or b"").decode(errors="surrogateescape")


def _unquote(node: "Node") -> str | None:
    text = node_text(node)
    if node.named_child_count:
        return None
    bare = _ESCAPED.sub("", text)
    if text != "{}" and _EXPANSION_CHARS.search(bare):
        return None
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text)


def _unquote_string(node: "Node") -> str | None:
    text = node_text(node)
    if not text.startswith('"') or any(child.type != "string_content" for child in node.named_children):
        return None
    return _ESCAPED_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text[1:-1])


def _decode_ansi(text: str) -> str | None:
    found = _ANSI_ESCAPE.sub(_decode_ansi_escape, text)
    return None if "\x00" in found or "\ufffd" in found else found


def _decode_ansi_escape(found: re.Match[str]) -> str:
    for group, base in (("hex", 16), ("short", 16), ("long", 16), ("octal", 8)):
        if found[group] is not None:
            code = int(found[group], base)
            # A byte that is no character by itself cannot be known as one.
            return chr(code) if code < 0x80 or (group in ("short", "long") and code < 0xD800) else "\ufffd"
    if found["control"] is not None:
        return "\ufffd"
    return _SIMPLE_ESCAPES.get(found["plain"], "\ufffd")


def _join_parts(node: "Node") -> str | None:
    """Return parts that stand together as one word; `{a,b}` is several."""
    if node.start_byte == node.end_byte or node_text(node) == "{}":
        return node_text(node)
    parts = [literal_word(child) for child in node.children]
    if any(part is None for part in parts):
        return None
    if sum(len(child.text or b"") for child in node.children) != len(node.text or b""):
        return None
    return "".join(part for part in parts if part is not None)


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNSAFE_NAME: Final = re.compile(
    r"PATH|IFS|ENV|HOME|SHELL|SHELLOPTS|BASHOPTS|BASH_.*|LD_.*|DYLD_.*|PROMPT_COMMAND|PS[0-4]|CDPATH|GLOBIGNORE|FUNCNEST"
    r"|POSIXLY_CORRECT|TMOUT|EXECIGNORE|INPUTRC|HIST.*|GIT_.*|SSH_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|NPM_.*|npm_.*|LUA_.*"
    r"|JAVA_.*|_JAVA_.*|JDK_.*|CLASSPATH|MAKE.*|GOFLAGS|CARGO_.*|RUSTC.*|RUSTFLAGS|CC|CXX|LESS.*|MAN.*|TAR_.*|GZIP|XZ_.*"
    r"|ZIP.*|UNZIP.*|RSYNC_.*|CURL_.*|WGET.*|AWK.*|TERMINFO.*|TERMCAP|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|RES_OPTIONS"
    r"|HOSTALIASES|.*(EDITOR|VISUAL|PAGER|BROWSER|COMMAND|_OPTS|_OPTIONS|_PATH|_ARGS|_PRELOAD|_SHELL|_ASKPASS|_WRAPPER)"
)


def is_safe_variable(name: str) -> bool:
    """Say whether a variable can be set without changing what programs do."""
    return _NAME.fullmatch(name) is not None and _UNSAFE_NAME.fullmatch(name) is None


def is_safe_assignment(word: str) -> bool:
    """Say so of `NAME=value`."""
    return is_safe_variable(word.partition("=")[0])


_NUMBER: Final = re.compile(r"-?[0-9]+")
_ALWAYS_NUMERIC: Final = frozenset({"#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS"})
_NUMERIC_OPERATORS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})


class ArithmeticVariables:
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

    def mark_unknown(self, name: str) -> None:
        """Note that a variable may hold anything."""
        self._wild.add(name)

    def mark_all_unknown(self) -> None:
        """Note that every variable may: they are set where that is not seen."""
        self._unknown = True

    def use_in_arithmetic(self, node: "Node") -> None:
        """Note which variables a calculation uses."""
        if node.type == "test_command" and not _evaluates_arithmetic(node):
            return
        self._use(node)

    def unsafe_names(self) -> list[str]:
        """Return the variables that may hold something else than a number."""
        sure = set() if self._unknown else self._set - self._wild
        return sorted(self._used - sure - _ALWAYS_NUMERIC)

    def _use(self, node: "Node") -> None:
        for child in node.named_children:
            if child.type in ("do_group", "command_substitution", "compound_statement"):
                continue
            text = node_text(child)
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
        said = literal_word(node)
        if said is None and not node.named_child_count or said is not None and not _NUMBER.fullmatch(said):
            self._used.add(node_text(node))


def _evaluates_arithmetic(node: "Node") -> bool:
    """Say whether a test calculates; one in single brackets does so only to look for a variable."""
    operators = _NUMERIC_OPERATORS if node_text(node).startswith("[[") else {"-v", "-R"}
    return any(word in operators for word in re.split(r"\s+", node_text(node)))


def _is_number(value: "Node | None") -> bool:
    if value is None or value.type == "arithmetic_expansion":
        return True
    said = literal_word(value)
    return said is not None and _NUMBER.fullmatch(said) is not None
