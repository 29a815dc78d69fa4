"""The shell parser: finds every program that a command runs, at any depth.

Nothing that is not understood counts as harmless. An unknown grammar node, a word that only the shell can expand, or a
quirk of the parser adds a reason to `unclear`, and the command then requires approval.
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
"""Characters of a command that is parsed; a longer one is unclear."""
MAX_CODE_DEPTH: Final = 8
"""Levels of quoted code within code, as in `bash -c "eval …"`."""

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
"""Nodes without an effect of their own: only their children are visited."""
_SAFE_EXPANSION: Final = re.compile(
    r"\$\{(#?[A-Za-z0-9_]+|#?[@*#?$!_-]|#?[A-Za-z_][A-Za-z0-9_]*\[([@*]|[0-9]+)\]"
    r"|[A-Za-z0-9_@*]+(:?[-+?]|##?|%%?|//?|/[#%]|\^\^?|,,?).*|[A-Za-z0-9_]+:[0-9]+(:[0-9]+)?)\}",
    re.DOTALL,
)
_ASSIGNING_BUILTINS: Final = frozenset({"read", "printf", "getopts"})
"""Shell builtins that assign to variables named in their arguments."""
_SAFE_SET_OPTION: Final = re.compile(r"[-+][euxfvC]*o?|pipefail|errexit|nounset|xtrace|noglob|noclobber")
"""Shell options that do not change the meaning of a command."""
_RESERVED_WORDS: Final = frozenset(
    {
        "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "in", "select", "then", "until", "while",
    }
)  # fmt: skip
"""Words that cannot be programs: one in that position means that the parser disagrees with the shell."""
_SUBSTITUTION: Final = re.compile(r"\$\(|`|\$\{|<\(|>\(")
_LITERAL_NODES: Final = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_content", "heredoc_body"})
"""Nodes that the shell takes literally, or that another visitor checks."""
_HARMLESS_DEVICE: Final = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|fd/[0-9]+|zero|full|random|urandom)")


@lru_cache(maxsize=512)
def parse_script(command: str, depth: int = 0) -> ShellScript:
    """Return every program and redirection of a shell command; `depth` counts the levels of code around it."""
    problem = _unsupported_reason(command) or ("code is nested too deeply" if depth > MAX_CODE_DEPTH else None)
    if problem is not None:
        return ShellScript(unclear=(problem,))
    tree = _parser().parse(command.encode())
    if tree.root_node.has_error:
        return ShellScript(unclear=("it cannot be parsed as shell code",))
    reader = _ScriptReader(depth)
    try:
        reader.visit(tree.root_node)
    except RecursionError:
        return ShellScript(unclear=("it is nested too deeply",))
    return reader.script()


def _unsupported_reason(command: str) -> str | None:
    """Return why the shell and this parser could read a command differently, or null."""
    if len(command) > MAX_SCRIPT_CHARS:
        return f"it has more than {MAX_SCRIPT_CHARS} characters"
    try:
        command.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode text"
    if any((char.isspace() or not char.isprintable()) and char not in " \t\n" for char in command):
        return "it has invisible characters"
    if re.search(r"[^\s\\]\\\n[^\s]", command) or re.search(r"\\\\\n", command):
        return "a word continues on the next line"
    return None


@cache
def _parser() -> "Parser":
    # Imported on first use: most runs never parse a shell command.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _ScriptReader:
    """Visits the syntax tree of one command and collects programs, redirections and unclear parts."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._programs: list[ShellProgram] = []
        self._redirections: list[Redirection] = []
        self._unclear: dict[str, None] = {}
        self._cwd_changed = False
        self._arithmetic = ArithmeticVariables()
        self._visitors: dict[str, Callable[[Node], None]] = {
            "command": self._visit_command,
            "file_redirect": self._visit_redirect,
            "heredoc_redirect": self._visit_heredoc,
            "variable_assignment": self._visit_assignment,
            "declaration_command": self._visit_declaration,
            "unset_command": self._visit_declaration,
            "for_statement": self._visit_loop,
            "c_style_for_statement": self._arithmetic.use_in_arithmetic,
            "arithmetic_expansion": self._arithmetic.use_in_arithmetic,
            "test_command": self._arithmetic.use_in_arithmetic,
            "subscript": self._visit_subscript,
            "compound_statement": self._visit_compound,
            "expansion": self._visit_expansion,
        }

    def script(self) -> ShellScript:
        """Return the result of the visit."""
        for name in self._arithmetic.unsafe_names():
            self._add_unclear(f"`{name}` is used in arithmetic and may hold code")
        return ShellScript(
            programs=tuple(self._programs),
            redirections=tuple(self._redirections),
            cwd_changed=self._cwd_changed,
            unclear=tuple(self._unclear),
        )

    def visit(self, node: "Node") -> None:
        """Visit a node and all its descendants."""
        if not _children_cover_text(node):
            self._add_unclear(f"a part of `{node_text(node)[:40]}` is not understood")
        if not node.child_count and node.type not in _LITERAL_NODES and _SUBSTITUTION.search(node_text(node)):
            self._add_unclear(f"`{node_text(node)[:40]}` may run code")
        visitor = self._visitors.get(node.type)
        if visitor is not None:
            visitor(node)
        elif node.type not in _STRUCTURAL_NODES:
            self._add_unclear(f"`{node.type.replace('_', ' ')}` is not understood")
        for child in node.named_children:
            self.visit(child)

    def _add_unclear(self, reason: str) -> None:
        self._unclear[reason] = None

    def _visit_subscript(self, node: "Node") -> None:
        index = node.child_by_field_name("index")
        if index is None or re.fullmatch(r"@|\*|[0-9]+", node_text(index)) is None:
            self._arithmetic.use_in_arithmetic(node)

    def _visit_compound(self, node: "Node") -> None:
        if node_text(node).startswith("(("):
            self._arithmetic.use_in_arithmetic(node)

    def _visit_command(self, node: "Node") -> None:
        words: list[str | None] = []
        for child in node.children:
            if child.type == "command_name":
                words.append(literal_word(child.children[0]) if child.child_count == 1 else None)
            elif child.type not in ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"):
                words.append(literal_word(child))
        self._add_program(tuple(words))

    def _add_program(self, words: ShellWords) -> None:
        name = words[0] if words else None
        if name is None or name in _RESERVED_WORDS or "=" in name:
            self._add_unclear("which program runs is only known at run time")
            return
        if name in ("cd", "pushd", "popd"):
            self._cwd_changed = True
        nested = nested_commands(words)
        self._programs.append(ShellProgram(words=words, transparent=nested.transparent, opaque=nested.opaque))
        if nested.unclear is not None:
            self._add_unclear(nested.unclear)
        if nested.code is not None:
            self._add_nested_script(nested.code)
        elif name in _ASSIGNING_BUILTINS:
            self._check_assigning_builtin(words)
        elif name == "set":
            options = words[1:] if "--" not in words else words[1 : words.index("--")]
            if any(word is None or not _SAFE_SET_OPTION.fullmatch(word) for word in options):
                self._add_unclear("`set` may change what programs do")
        for command in nested.commands:
            self._add_program(command)
        if nested.code is None and any(word and _SUBSTITUTION.search(word) for word in words):
            self._add_unclear("a quoted word contains code")

    def _add_nested_script(self, code: str) -> None:
        self._arithmetic.mark_all_unknown()
        script = parse_script(code, self._depth + 1)
        self._programs += script.programs
        self._redirections += script.redirections
        self._cwd_changed = self._cwd_changed or script.cwd_changed
        self._unclear |= dict.fromkeys(script.unclear)

    def _check_assigning_builtin(self, words: ShellWords) -> None:
        if words[0] == "printf" and "-v" not in [(word or "-v")[:2] for word in words[1:]]:
            return
        for word in words[1:]:
            name = re.match(r"[A-Za-z_][A-Za-z0-9_]*", word or "")
            if word is None or "[" in word or (name is not None and not is_safe_variable(name[0])):
                self._add_unclear(f"`{words[0]}` may change what programs do")
            else:
                self._arithmetic.mark_unknown(word)

    def _visit_redirect(self, node: "Node") -> None:
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

    def _visit_heredoc(self, node: "Node") -> None:
        if any(_has_unparsed_expansion(child) for child in node.named_children if child.type == "heredoc_body"):
            self._add_unclear("a here-document may run code")
        for child in node.named_children:
            if child.type in ("heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "file_descriptor"):
                continue
            if child.type not in ("pipeline", "list", "command", "redirected_statement"):
                self._add_unclear("words after a here-document are not understood")

    def _visit_assignment(self, node: "Node") -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name" or not is_safe_variable(node_text(name)):
            self._add_unclear(f"`{node_text(name) if name is not None else '='}` changes what programs do")
            return
        self._arithmetic.assign(node_text(name), value)
        literal = None if value is None else literal_word(value)
        if literal is not None and _SUBSTITUTION.search(literal):
            self._add_unclear("a quoted word contains code")

    def _visit_declaration(self, node: "Node") -> None:
        for child in node.named_children:
            if child.type == "variable_assignment":
                continue
            literal = literal_word(child)
            if literal is None or not re.fullmatch(r"-[xrgaAp]+", literal) and not is_safe_variable(literal):
                self._add_unclear("a declared variable may change what programs do")

    def _visit_loop(self, node: "Node") -> None:
        name = node.child_by_field_name("variable")
        if name is None or not is_safe_variable(node_text(name)):
            self._add_unclear("a loop variable changes what programs do")
            return
        for value in node.children_by_field_name("value"):
            self._arithmetic.assign(node_text(name), value)

    def _visit_expansion(self, node: "Node") -> None:
        if _SAFE_EXPANSION.fullmatch(node_text(node)) is None:
            self._add_unclear(f"`{node_text(node)}` may run code")


def _children_cover_text(node: "Node") -> bool:
    """Return whether the children of a node cover all its text except white space."""
    if not node.child_count or node.type == "heredoc_body":
        return True
    text, offset = node.text or b"", 0
    for child in node.children:
        if text[offset : child.start_byte - node.start_byte].replace(b"\\\n", b"").strip(b" \t\n"):
            return False
        offset = max(offset, child.end_byte - node.start_byte)
    return not text[offset:].replace(b"\\\n", b"").strip(b" \t\n")


def _has_unparsed_expansion(body: "Node") -> bool:
    """Return whether an unquoted here-document has more expansions than the parser found."""
    starts = [child for child in body.parent.named_children if child.type == "heredoc_start"] if body.parent else []
    if not starts or re.search(r"['\"\\]", node_text(starts[0])):
        return False
    text = re.sub(r"\\[\\$`]", "", node_text(body))
    parsed = sum(1 for child in body.named_children if child.type != "heredoc_content")
    return "`" in text or text.count("$") > parsed
