"""Words and variables of a shell command: literal values, safe assignments, and arithmetic.

A word is as the program receives it, or null where only the shell knows. A variable used in arithmetic is evaluated
as code unless it is known to hold a number.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node


_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\(\n|[$`\"\\])")
_ANSI_ESCAPE: Final = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})"
    r"|(?P<octal>[0-7]{1,3})|c(?P<control>.)|(?P<plain>.))",
    re.DOTALL,
)
_SIMPLE_ESCAPES: Final = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True)) | {c: c for c in "\\'\"?"}
_EXPANSION_CHARS: Final = re.compile(r"[*?\[\]]|^~|[:=]~|[{}]")
"""Characters that the shell expands in an unquoted word."""


def literal_word(node: "Node") -> str | None:
    """Return a word as the program receives it, or null if that is only known at run time."""
    match node.type:
        case "word" | "number" | "variable_name" | "test_operator" | "special_variable_name":
            return _unquote_word(node)
        case "raw_string":
            return node_text(node)[1:-1]
        case "string":
            return _unquote_string(node)
        case "ansi_c_string":
            text = _ANSI_ESCAPE.sub(_decode_ansi_escape, node_text(node)[2:-1])
            return None if "\x00" in text or "\ufffd" in text else text
        case "concatenation":
            return _join_parts(node)
        case _:
            return None


def node_text(node: "Node") -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode(errors="surrogateescape")


def _unquote_word(node: "Node") -> str | None:
    text = node_text(node)
    if node.named_child_count:
        return None
    if text != "{}" and _EXPANSION_CHARS.search(_ESCAPED.sub("", text)):
        return None
    return _ESCAPED.sub(lambda escape: "" if escape[1] == "\n" else escape[1], text)


def _unquote_string(node: "Node") -> str | None:
    text = node_text(node)
    if not text.startswith('"') or any(child.type != "string_content" for child in node.named_children):
        return None
    return _ESCAPED_IN_QUOTES.sub(lambda escape: "" if escape[1] == "\n" else escape[1], text[1:-1])


def _decode_ansi_escape(escape: re.Match[str]) -> str:
    """Return the character of an escape, or U+FFFD for one that cannot be decoded."""
    for group, base in (("hex", 16), ("short", 16), ("long", 16), ("octal", 8)):
        if escape[group] is not None:
            code = int(escape[group], base)
            # A byte above 0x7F is only a part of a character.
            return chr(code) if code < 0x80 or (group in ("short", "long") and code < 0xD800) else "\ufffd"
    if escape["control"] is not None:
        return "\ufffd"
    return _SIMPLE_ESCAPES.get(escape["plain"], "\ufffd")


def _join_parts(node: "Node") -> str | None:
    """Return adjacent parts as one word, or null for `{a,b}`, which is several."""
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
    """Return whether a variable can be set without changing what programs do."""
    return _NAME.fullmatch(name) is not None and _UNSAFE_NAME.fullmatch(name) is None


_NUMBER: Final = re.compile(r"-?[0-9]+")
_ALWAYS_NUMERIC: Final = frozenset({"#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS"})
_NUMERIC_OPERATORS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})


class ArithmeticVariables:
    """The variables used in arithmetic, and those that are known to hold a number."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._assigned: set[str] = set()
        self._not_numeric: set[str] = set()
        self._all_unknown = False

    def assign(self, name: str, value: "Node | None") -> None:
        """Record an assignment."""
        self._assigned.add(name)
        if value is not None and value.type != "arithmetic_expansion":
            literal = literal_word(value)
            if literal is None or _NUMBER.fullmatch(literal) is None:
                self._not_numeric.add(name)

    def mark_unknown(self, name: str) -> None:
        """Record that a variable may hold anything."""
        self._not_numeric.add(name)

    def mark_all_unknown(self) -> None:
        """Record that every variable may hold anything, because nested code may set it."""
        self._all_unknown = True

    def use_in_arithmetic(self, node: "Node") -> None:
        """Record the variables that an expression evaluates."""
        if node.type == "test_command":
            # A test in single brackets evaluates only the subscript of a variable that it looks for.
            operators = _NUMERIC_OPERATORS if node_text(node).startswith("[[") else {"-v", "-R"}
            if not any(word in operators for word in re.split(r"\s+", node_text(node))):
                return
        self._use_children(node)

    def unsafe_names(self) -> list[str]:
        """Return the variables in arithmetic that may hold something other than a number."""
        numeric = set() if self._all_unknown else self._assigned - self._not_numeric
        return sorted(self._used - numeric - _ALWAYS_NUMERIC)

    def _use_children(self, node: "Node") -> None:
        for child in node.named_children:
            if child.type in ("do_group", "command_substitution", "compound_statement"):
                continue
            text = node_text(child)
            if child.type in ("variable_name", "special_variable_name") or (
                child.type == "word" and _NAME.fullmatch(text)
            ):
                self._used.add(text)
            elif child.type in ("word", "string", "raw_string", "ansi_c_string", "concatenation", "expansion"):
                literal = literal_word(child)
                if not child.named_child_count if literal is None else not _NUMBER.fullmatch(literal):
                    self._used.add(text)
            self._use_children(child)
