"""The shell parser: finds every program in a command, wherever it stands.

Nothing that is not understood counts as harmless. An unknown part of the grammar, a word that only the shell knows, a
quirk of the parser: each adds a reason to `unclear`, and then the command requires approval.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.tools.permissions.shell.script import FileAccess, Redirection, ShellProgram, ShellScript, ShellWords
from holdfast.tools.permissions.shell.words import ArithmeticVariables, is_safe_variable, literal_word, node_text
from holdfast.tools.permissions.shell.wrappers import nested_commands

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


MAX_SCRIPT_CHARS: Final = 20_000
"""Characters of a command that is looked at."""
MAX_NESTING: Final = 8
"""How often code may hold more code in quotes."""

_STRUCTURAL_NODES: Final = frozenset(
    {
        "program", "list", "pipeline", "subshell", "redirected_statement", "negated_command",
        "if_statement", "elif_clause", "else_clause", "while_statement", "do_group", "case_statement", "case_item",
        "command_substitution", "process_substitution", "heredoc_body", "heredoc_content", "heredoc_start",
        "heredoc_end",
        "variable_assignments", "command_name", "concatenation", "string", "string_content", "raw_string",
        "ansi_c_string", "word", "number", "variable_name", "special_variable_name", "file_descriptor", "array",
        "comment", "test_operator", "regex", "extglob_pattern", "translated_string", "herestring_redirect",
        "parenthesized_expression", "unary_expression", "binary_expression", "ternary_expression", "postfix_expression",
        "simple_expansion", "brace_expression", "function_definition",
    }
)  # fmt: skip
"""Parts that do nothing themselves: what is in them is looked at."""
_SAFE_EXPANSION: Final = re.compile(
    r"\$\{(#?[A-Za-z0-9_]+|#?[@*#?$!_-]|#?[A-Za-z_][A-Za-z0-9_]*\[([@*]|[0-9]+)\]"
    r"|[A-Za-z0-9_@*]+(:?[-+?]|##?|%%?|//?|/[#%]|\^\^?|,,?).*|[A-Za-z0-9_]+:[0-9]+(:[0-9]+)?)\}",
    re.DOTALL,
)
_ASSIGNING_BUILTINS: Final = frozenset({"read", "printf", "getopts"})
"""Programs of the shell that set variables whose names they are given."""
_SAFE_SET_OPTION: Final = re.compile(r"[-+][euxfvC]*o?|pipefail|errexit|nounset|xtrace|noglob|noclobber")
"""Options of the shell that change no meaning of a command."""
_RESERVED_WORDS: Final = frozenset(
    {
        "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "in", "select", "then", "until", "while",
    }
)  # fmt: skip
"""Words that are no programs: where one seems to be run, the command was not read as the shell reads it."""
_SUBSTITUTION: Final = re.compile(r"\$\(|`|\$\{|<\(|>\(")
_LITERAL_NODES: Final = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_content", "heredoc_body"})
"""What the shell takes as it is written, or what is looked at elsewhere."""
_HARMLESS_DEVICE: Final = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|fd/[0-9]+|zero|full|random|urandom)")


def parse_script(command: str) -> ShellScript:
    """Return all that a shell command does."""
    return _parse_nested(command, 0)


@lru_cache(maxsize=512)
def _parse_nested(command: str, nesting: int) -> ShellScript:
    strange = _unsupported_reason(command) or ("code is nested too deeply" if nesting > MAX_NESTING else None)
    if strange is not None:
        return ShellScript(unclear=(strange,))
    tree = _parser().parse(command.encode())
    if tree.root_node.has_error:
        return ShellScript(unclear=("it cannot be read as shell code",))
    reader = _ScriptReader(nesting)
    try:
        reader.read(tree.root_node)
    except RecursionError:
        return ShellScript(unclear=("it is nested too deeply",))
    return reader.script()


def _unsupported_reason(command: str) -> str | None:
    """Say what a shell and a parser could read differently."""
    if len(command) > MAX_SCRIPT_CHARS:
        return f"it has more than {MAX_SCRIPT_CHARS} characters"
    try:
        command.encode()
    except UnicodeEncodeError:
        return "it is no text"
    if any((char.isspace() or not char.isprintable()) and char not in " \t\n" for char in command):
        return "it has characters that cannot be seen"
    if re.search(r"[^\s\\]\\\n[^\s]", command) or re.search(r"\\\\\n", command):
        return "a word goes on in the next line"
    return None


@cache
def _parser() -> "Parser":
    # On first use: most runs never look at a shell command.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _ScriptReader:
    """Walks through a command and gathers what it does."""

    def __init__(self, nesting: int) -> None:
        self._nesting = nesting
        self._programs: list[ShellProgram] = []
        self._redirections: list[Redirection] = []
        self._unclear: dict[str, None] = {}
        self._cwd_changed = False
        self._numbers = ArithmeticVariables()
        self._visitors: dict[str, Callable[[Node], None]] = {
            "command": self._command,
            "file_redirect": self._redirect,
            "heredoc_redirect": self._heredoc,
            "variable_assignment": self._assignment,
            "declaration_command": self._declaration,
            "unset_command": self._declaration,
            "for_statement": self._loop,
            "c_style_for_statement": self._numbers.use_in_arithmetic,
            "arithmetic_expansion": self._numbers.use_in_arithmetic,
            "test_command": self._numbers.use_in_arithmetic,
            "subscript": self._subscript,
            "compound_statement": self._compound,
            "expansion": self._expansion,
        }

    def script(self) -> ShellScript:
        """Return what was gathered."""
        for name in self._numbers.unsafe_names():
            self._unclear[f"`{name}` is calculated with, and may hold code"] = None
        return ShellScript(
            programs=tuple(self._programs),
            redirections=tuple(self._redirections),
            cwd_changed=self._cwd_changed,
            unclear=tuple(self._unclear),
        )

    def read(self, node: "Node") -> None:
        """Take in a node and all that is in it."""
        if not _covers_its_text(node):
            self._add_unclear(f"a part of `{node_text(node)[:40]}` is not understood")
        if not node.child_count and node.type not in _LITERAL_NODES and _SUBSTITUTION.search(node_text(node)):
            self._add_unclear(f"`{node_text(node)[:40]}` may run code")
        take = self._visitors.get(node.type)
        if take is not None:
            take(node)
        elif node.type not in _STRUCTURAL_NODES:
            self._add_unclear(f"`{node.type.replace('_', ' ')}` is not understood")
        for child in node.named_children:
            self.read(child)

    def _add_unclear(self, reason: str) -> None:
        self._unclear[reason] = None

    def _subscript(self, node: "Node") -> None:
        index = node.child_by_field_name("index")
        if index is None or re.fullmatch(r"@|\*|[0-9]+", node_text(index)) is None:
            self._numbers.use_in_arithmetic(node)

    def _compound(self, node: "Node") -> None:
        if node_text(node).startswith("(("):
            self._numbers.use_in_arithmetic(node)

    def _command(self, node: "Node") -> None:
        words: list[str | None] = []
        for child in node.children:
            if child.type == "command_name":
                words.append(literal_word(child.children[0]) if child.child_count == 1 else None)
            elif child.type not in ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"):
                words.append(literal_word(child))
        self._program(tuple(words))

    def _program(self, words: ShellWords) -> None:
        name = words[0] if words else None
        if name is None or name in _RESERVED_WORDS or "=" in name:
            self._add_unclear("which program runs is only known then")
            return
        if name in ("cd", "pushd", "popd"):
            self._cwd_changed = True
        found = nested_commands(words)
        self._programs.append(ShellProgram(words=words, transparent=found.transparent, opaque=found.opaque))
        if found.unclear is not None:
            self._add_unclear(found.unclear)
        if found.code is not None:
            self._code(found.code)
        elif name in _ASSIGNING_BUILTINS:
            self._sets(words)
        elif name == "set":
            self._set(words)
        for command in found.commands:
            self._program(command)
        if found.code is None and any(word and _SUBSTITUTION.search(word) for word in words):
            self._add_unclear("there is code in quotes")

    def _code(self, code: str) -> None:
        self._numbers.mark_all_unknown()
        script = _parse_nested(code, self._nesting + 1)
        self._programs += script.programs
        self._redirections += script.redirections
        self._cwd_changed = self._cwd_changed or script.cwd_changed
        self._unclear |= dict.fromkeys(script.unclear)

    def _sets(self, words: ShellWords) -> None:
        """A program of the shell that sets the variables that it is given."""
        if words[0] == "printf" and "-v" not in [(word or "-v")[:2] for word in words[1:]]:
            return
        for word in words[1:]:
            if word is None or _names_unsafe_variable(word):
                self._add_unclear(f"`{words[0]}` may change what programs do")
            else:
                self._numbers.mark_unknown(word)

    def _set(self, words: ShellWords) -> None:
        """`set` gives the shell other options, up to `--`."""
        given = words[1:] if "--" not in words else words[1 : words.index("--")]
        if any(word is None or not _SAFE_SET_OPTION.fullmatch(word) for word in given):
            self._add_unclear("`set` may change what programs do")

    def _redirect(self, node: "Node") -> None:
        targets = node.children_by_field_name("destination")
        if len(targets) != 1:
            self._add_unclear("words after a redirection are not understood")
            return
        path, operator = literal_word(targets[0]), next((c.type for c in node.children if not c.is_named), "")
        if operator in (">&", "<&", "<&-", ">&-") and re.fullmatch(r"[0-9]+-?|-", node_text(targets[0])):
            return
        if path is not None and _HARMLESS_DEVICE.fullmatch(path):
            return
        access = FileAccess.READ if operator.startswith("<") else FileAccess.WRITE
        self._redirections.append(Redirection(path=path, access=access))

    def _heredoc(self, node: "Node") -> None:
        if any(_has_unparsed_expansion(child) for child in node.named_children if child.type == "heredoc_body"):
            self._add_unclear("a here-document may run code")
        for child in node.named_children:
            if child.type in ("heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "file_descriptor"):
                continue
            if child.type not in ("pipeline", "list", "command", "redirected_statement"):
                self._add_unclear("words after a here-document are not understood")

    def _assignment(self, node: "Node") -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name" or not is_safe_variable(node_text(name)):
            self._add_unclear(f"`{node_text(name) if name is not None else '='}` changes what programs do")
            return
        self._numbers.assign(node_text(name), value)
        said = None if value is None else literal_word(value)
        if said is not None and _SUBSTITUTION.search(said):
            self._add_unclear("there is code in quotes")

    def _declaration(self, node: "Node") -> None:
        for child in node.named_children:
            if child.type == "variable_assignment":
                continue
            said = literal_word(child)
            if said is None or not re.fullmatch(r"-[xrgaAp]+", said) and not is_safe_variable(said):
                self._add_unclear("a variable is declared that may change what programs do")

    def _loop(self, node: "Node") -> None:
        name = node.child_by_field_name("variable")
        if name is None or not is_safe_variable(node_text(name)):
            self._add_unclear("a loop changes what programs do")
            return
        for value in node.children_by_field_name("value"):
            self._numbers.assign(node_text(name), value)

    def _expansion(self, node: "Node") -> None:
        if _SAFE_EXPANSION.fullmatch(node_text(node)) is None:
            self._add_unclear(f"`{node_text(node)}` may run code")


def _covers_its_text(node: "Node") -> bool:
    """Say whether all that is written in a node is in its parts: what lies between them is only space."""
    if not node.child_count or node.type == "heredoc_body":
        return True
    text, at = node.text or b"", 0
    for child in node.children:
        if text[at : child.start_byte - node.start_byte].replace(b"\\\n", b"").strip(b" \t\n"):
            return False
        at = max(at, child.end_byte - node.start_byte)
    return not text[at:].replace(b"\\\n", b"").strip(b" \t\n")


def _has_unparsed_expansion(body: "Node") -> bool:
    """Say whether a here-document in which the shell replaces things has more to replace than was found."""
    starts = [child for child in body.parent.named_children if child.type == "heredoc_start"] if body.parent else []
    if not starts or re.search(r"['\"\\]", node_text(starts[0])):
        return False
    text = re.sub(r"\\[\\$`]", "", node_text(body))
    found = sum(1 for child in body.named_children if child.type != "heredoc_content")
    return "`" in text or text.count("$") > found


def _names_unsafe_variable(word: str) -> bool:
    found = re.match(r"[A-Za-z_][A-Za-z0-9_]*", word)
    return "[" in word or (found is not None and not is_safe_variable(found[0]))
