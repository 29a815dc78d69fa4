"""Words of a shell command: what is quoted or escaped as the program gets it; what only the shell knows is null."""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\(\n|[$`\"\\])")
_ANSI: Final = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})"
    r"|(?P<octal>[0-7]{1,3})|c(?P<control>.)|(?P<plain>.))",
    re.DOTALL,
)
_PLAIN: Final = {
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
_EXPANDS: Final = re.compile(r"[*?\[\]]|^~|[:=]~|[{}]")
"""What the shell replaces in a word that is not quoted."""


def literal(node: "Node") -> str | None:
    """Return a word as the program gets it, or null where that depends on what the shell finds when it runs."""
    match node.type:
        case "word" | "number" | "variable_name" | "test_operator" | "special_variable_name":
            return _unquoted(node)
        case "raw_string":
            return text_of(node)[1:-1]
        case "string":
            return _quoted(node)
        case "ansi_c_string":
            return _ansi(text_of(node)[2:-1])
        case "concatenation":
            return _joined(node)
        case _:
            return None


def text_of(node: "Node") -> str:
    """Return a node as it is written."""
    return (node.text or b"").decode(errors="surrogateescape")


def _unquoted(node: "Node") -> str | None:
    text = text_of(node)
    if node.named_child_count:
        return None
    bare = _ESCAPED.sub("", text)
    if text != "{}" and _EXPANDS.search(bare):
        return None
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text)


def _quoted(node: "Node") -> str | None:
    text = text_of(node)
    if not text.startswith('"') or any(child.type != "string_content" for child in node.named_children):
        return None
    return _ESCAPED_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text[1:-1])


def _ansi(text: str) -> str | None:
    found = _ANSI.sub(_ansi_character, text)
    return None if "\x00" in found or "\ufffd" in found else found


def _ansi_character(found: re.Match[str]) -> str:
    for group, base in (("hex", 16), ("short", 16), ("long", 16), ("octal", 8)):
        if found[group] is not None:
            code = int(found[group], base)
            # A byte that is no character by itself cannot be known as one.
            return chr(code) if code < 0x80 or (group in ("short", "long") and code < 0xD800) else "\ufffd"
    if found["control"] is not None:
        return "\ufffd"
    return _PLAIN.get(found["plain"], "\ufffd")


def _joined(node: "Node") -> str | None:
    """Return parts that stand together as one word; `{a,b}` is several."""
    if node.start_byte == node.end_byte or text_of(node) == "{}":
        return text_of(node)
    parts = [literal(child) for child in node.children]
    if any(part is None for part in parts):
        return None
    if sum(len(child.text or b"") for child in node.children) != len(node.text or b""):
        return None
    return "".join(part for part in parts if part is not None)
