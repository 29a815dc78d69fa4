"""Permission rule checks at load time, and the grants suggested to a person who always approves a call.

A rule that can never match is an error, because its author relies on it.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from holdfast.domain.agent import Permissions
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.mcp_server import server_of_tool, server_tool_prefix
from holdfast.domain.permission import ParsedRule, PermissionAction, parse_rule
from holdfast.domain.tool import REMOTE_METHOD_PREFIX
from holdfast.domain.web_url import parse_web_url
from holdfast.tools.builtin.catalog import BUILTIN_NAMES
from holdfast.tools.content import did_you_mean
from holdfast.tools.permissions.command_pattern import check_command_pattern, command_pattern
from holdfast.tools.permissions.patterns import (
    DOMAIN_PREFIX,
    check_domain_pattern,
    check_path_pattern,
    domain_pattern,
    normalize_path,
)
from holdfast.tools.permissions.policy import PermissionPolicy
from holdfast.tools.permissions.rules import BASH_TOOL, RULE_SUBJECTS, RuleSubjectKind
from holdfast.tools.permissions.shell.script import FileAccess, ShellWords
from holdfast.tools.permissions.shell.wrappers import is_transparent_wrapper

KNOWN_TOOLS: Final = frozenset({*RULE_SUBJECTS, *BUILTIN_NAMES})
"""Tools that exist in every installation."""

_AGENT_PATTERN: Final = re.compile(r"[a-z0-9*][a-z0-9_*-]{0,63}")


class RuleProblem(NamedTuple):
    """A rule that can never match: the name of its list, its position in it, and the reason."""

    kind: str
    position: int
    reason: str


def rule_problems(permissions: Permissions, *, known: Collection[str] = KNOWN_TOOLS) -> Iterator[RuleProblem]:
    """Yield the rules that can never match."""
    earlier: list[tuple[str, str]] = []
    for kind in ("deny", "ask", "allow"):
        for index, text in enumerate(getattr(permissions, kind)):
            try:
                check_rule(text, known=known, is_allow=kind == "allow")
                for earlier_kind, earlier_text in earlier:
                    if _covers(parse_rule(earlier_text), parse_rule(text)):
                        raise Invalid(f"it is never reached: `{earlier_text}` in `{earlier_kind}` comes first")
            except Invalid as exc:
                yield RuleProblem(kind, index, exc.message)
            else:
                earlier.append((kind, text))


def check_rule(text: str, *, known: Collection[str] = KNOWN_TOOLS, is_allow: bool = False) -> None:
    """Raise `Invalid` if no call can match a rule."""
    rule = parse_rule(text)
    if rule.tool not in known and not _is_dynamic_tool(rule.tool):
        raise Invalid(f"there is no tool `{rule.tool}`{did_you_mean(rule.tool, known)}")
    if rule.specifier is None:
        return
    if rule.tool not in RULE_SUBJECTS:
        raise Invalid(f"rules of `{rule.tool}` take nothing in brackets: write `{rule.tool}`")
    match RULE_SUBJECTS[rule.tool].kind:
        case RuleSubjectKind.PATH:
            check_path_pattern(rule.specifier)
        case RuleSubjectKind.COMMAND:
            check_command_pattern(rule.specifier)
            program = command_pattern(rule.specifier).program
            if is_allow and is_transparent_wrapper(program):
                raise Invalid(f"`{program}` only runs another program: allow that one")
        case RuleSubjectKind.AGENT:
            if _AGENT_PATTERN.fullmatch(rule.specifier) is None:
                raise Invalid("agent names have lower-case letters, digits, `_` and `-`; `*` matches any characters")
        case RuleSubjectKind.DOMAIN:
            check_domain_pattern(rule.specifier)


def _is_dynamic_tool(tool: str) -> bool:
    """Return whether a name belongs to tools of clients or MCP servers, which are not known when rules are loaded."""
    server = server_of_tool(tool)
    if server is not None:
        return server != "" and tool.removeprefix(server_tool_prefix(server)) != ""
    return tool.startswith(REMOTE_METHOD_PREFIX) and not tool.endswith("*")


def _covers(rule: ParsedRule, other: ParsedRule) -> bool:
    """Return whether `rule` matches every call that `other` matches."""
    if rule.tool != other.tool:
        return rule.tool.endswith("*") and other.tool.startswith(rule.tool[:-1])
    if rule.specifier is None or rule.specifier == other.specifier:
        return True
    if other.specifier is None or rule.tool not in RULE_SUBJECTS:
        return False
    match RULE_SUBJECTS[rule.tool].kind:
        case RuleSubjectKind.COMMAND:
            return command_pattern(rule.specifier).covers(command_pattern(other.specifier))
        case RuleSubjectKind.DOMAIN:
            return domain_pattern(rule.specifier).covers(domain_pattern(other.specifier))
        case _:
            return rule.specifier in ("*", "**")


_TOOL_FOR_ACCESS: Final = {FileAccess.READ: "read_file", FileAccess.WRITE: "write_file"}


def suggest_grants(policy: PermissionPolicy, tool: str, arguments: dict[str, Json]) -> list[list[str]]:
    """Return sets of rules, the narrowest first, each of which would allow the call."""
    grants: list[list[str]] = []
    for rules in dict.fromkeys(tuple(dict.fromkeys(each)) for each in _candidate_grants(policy, tool, arguments)):
        try:
            for text in rules:
                check_rule(text, known={tool, *RULE_SUBJECTS}, is_allow=True)
        except Invalid:
            continue
        decision = policy.with_grants(rules).decide(tool, arguments, default=PermissionAction.ASK)
        if decision.action is PermissionAction.ALLOW:
            grants.append(list(rules))
    return grants


def _candidate_grants(policy: PermissionPolicy, tool: str, arguments: dict[str, Json]) -> Iterator[list[str]]:
    subject = RULE_SUBJECTS.get(tool)
    if subject is None:
        yield [tool]
        if (server := server_of_tool(tool)) is not None:
            yield [f"{server_tool_prefix(server)}*"]
        return
    argument = arguments.get(subject.argument)
    if not isinstance(argument, str):
        return
    match subject.kind:
        case RuleSubjectKind.COMMAND:
            yield from _command_grants(policy, argument)
        case RuleSubjectKind.AGENT:
            yield [f"{tool}({argument})"]
        case RuleSubjectKind.DOMAIN:
            try:
                host = parse_web_url(argument).host
            except Invalid:
                return
            yield [f"{tool}({DOMAIN_PREFIX}{host})"]
        case RuleSubjectKind.PATH:
            yield from ([f"{tool}({pattern})"] for pattern in _path_patterns(argument))


def _command_grants(policy: PermissionPolicy, command: str) -> Iterator[list[str]]:
    script = policy.shell.parts_needing_approval(command)
    if not script.programs:
        return
    files = [(_TOOL_FOR_ACCESS[one.access], *_path_patterns(one.path or "")) for one in script.redirections]
    for pattern, which in ((_exact_command, 0), (_subcommand_wildcard, -1)):
        programs = [f"{BASH_TOOL}({pattern(program.words)})" for program in script.programs]
        yield programs + [f"{tool}({patterns[which]})" for tool, *patterns in files]


def _exact_command(words: ShellWords) -> str:
    return shlex.join(word if word is not None else "*" for word in words)


def _subcommand_wildcard(words: ShellWords) -> str:
    """Return a pattern for a program and its subcommand, `git push *`, where the second word is not an option."""
    if len(words) < 3 or words[1] is None or words[1].startswith("-"):
        return _exact_command(words)
    return f"{_exact_command(words[:2])} *"


def _path_patterns(path: str) -> list[str]:
    """Return a pattern for a path, and one for everything in its folder."""
    # The wildcards of a pattern are escaped in a file name.
    exact = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in normalize_path(path))
    folder = posixpath.dirname(exact)
    return [exact, f"{folder}/**"] if folder not in ("", "/") else [exact]
