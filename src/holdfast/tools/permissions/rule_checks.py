"""Permission rule checks at load time, and the grants suggested to a person who always approves a call.

A rule that can never match is an error: somebody relies on each of them.
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
"""Tools that are there wherever Holdfast runs."""

_AGENT_PATTERN: Final = re.compile(r"[a-z0-9*][a-z0-9_*-]{0,63}")


class RuleProblem(NamedTuple):
    """A rule that can never match: which list it is in, where, and why."""

    kind: str
    place: int
    reason: str


def rule_problems(permissions: Permissions, *, known: Collection[str] = KNOWN_TOOLS) -> Iterator[RuleProblem]:
    """Yield what is wrong with rules."""
    stricter: list[tuple[str, str]] = []
    for name in ("deny", "ask", "allow"):
        own: list[tuple[str, str]] = []
        for index, text in enumerate(getattr(permissions, name)):
            try:
                check_rule(text, known=known, is_allow=name == "allow")
                _check_reachable(text, [*stricter, *own])
            except Invalid as exc:
                yield RuleProblem(name, index, exc.message)
            else:
                own.append((name, text))
        stricter += own


def check_rule(text: str, *, known: Collection[str] = KNOWN_TOOLS, is_allow: bool = False) -> None:
    """Raise `Invalid` if no call can fit a rule."""
    parts = parse_rule(text)
    if parts.tool not in known and not _is_dynamic_tool(parts.tool):
        raise Invalid(f"there is no tool `{parts.tool}`{did_you_mean(parts.tool, known)}")
    if parts.specifier is None:
        return
    if parts.tool not in RULE_SUBJECTS:
        raise Invalid(f"rules of `{parts.tool}` have nothing in brackets: write `{parts.tool}`")
    match RULE_SUBJECTS[parts.tool].kind:
        case RuleSubjectKind.PATH:
            check_path_pattern(parts.specifier)
        case RuleSubjectKind.COMMAND:
            check_command_pattern(parts.specifier)
            _check_program(command_pattern(parts.specifier).program, is_allow=is_allow)
        case RuleSubjectKind.AGENT:
            if _AGENT_PATTERN.fullmatch(parts.specifier) is None:
                raise Invalid("no agent has such a name: it has lower-case letters, digits, `_` and `-`; `*` is any")
        case RuleSubjectKind.DOMAIN:
            check_domain_pattern(parts.specifier)


def _is_dynamic_tool(tool: str) -> bool:
    """Say whether a name is that of tools of clients or of MCP servers, which nobody knows before they are there."""
    server = server_of_tool(tool)
    if server is not None:
        return server != "" and tool.removeprefix(server_tool_prefix(server)) != ""
    return tool.startswith(REMOTE_METHOD_PREFIX) and not tool.endswith("*")


def _check_program(program: str, *, is_allow: bool) -> None:
    if is_allow and is_transparent_wrapper(program):
        raise Invalid(f"`{program}` is looked through: allow what it runs")


def _check_reachable(text: str, before: list[tuple[str, str]]) -> None:
    """Raise if every call that fits is decided by a rule before it."""
    for name, earlier in before:
        if _covers(parse_rule(earlier), parse_rule(text)):
            raise Invalid(f"it is never reached: `{earlier}` in `{name}` comes first")


def _covers(one: ParsedRule, other: ParsedRule) -> bool:
    if one.tool != other.tool:
        return one.tool.endswith("*") and other.tool.startswith(one.tool[:-1])
    if one.specifier is None or one.specifier == other.specifier:
        return True
    if other.specifier is None or one.tool not in RULE_SUBJECTS:
        return False
    match RULE_SUBJECTS[one.tool].kind:
        case RuleSubjectKind.COMMAND:
            return command_pattern(one.specifier).covers(command_pattern(other.specifier))
        case RuleSubjectKind.DOMAIN:
            return domain_pattern(one.specifier).covers(domain_pattern(other.specifier))
        case _:
            return one.specifier in ("*", "**")


_TOOL_FOR_ACCESS: Final = {FileAccess.READ: "read_file", FileAccess.WRITE: "write_file"}


def suggest_grants(policy: PermissionPolicy, tool: str, arguments: dict[str, Json]) -> list[list[str]]:
    """Return sets of rules, the narrowest first, each of which allows the call; none where no rule could."""
    sets = dict.fromkeys(tuple(dict.fromkeys(rules)) for rules in _candidate_grants(policy, tool, arguments))
    return [list(rules) for rules in sets if _would_allow(policy, rules, tool, arguments)]


def _would_allow(policy: PermissionPolicy, rules: tuple[str, ...], tool: str, arguments: dict[str, Json]) -> bool:
    try:
        for text in rules:
            check_rule(text, known={tool, *RULE_SUBJECTS}, is_allow=True)
    except Invalid:
        return False
    return (
        policy.with_grants(rules).decide(tool, arguments, default=PermissionAction.ASK).action is PermissionAction.ALLOW
    )


def _candidate_grants(policy: PermissionPolicy, tool: str, arguments: dict[str, Json]) -> Iterator[list[str]]:
    subject = RULE_SUBJECTS.get(tool)
    said = None if subject is None else arguments.get(subject.argument)
    if subject is None:
        yield [tool]
        if (server := server_of_tool(tool)) is not None:
            yield [f"{server_tool_prefix(server)}*"]
    elif not isinstance(said, str):
        return
    elif subject.kind is RuleSubjectKind.COMMAND:
        yield from _command_grants(policy, said)
    elif subject.kind is RuleSubjectKind.AGENT:
        yield [f"{tool}({said})"]
    elif subject.kind is RuleSubjectKind.DOMAIN:
        yield from ([f"{tool}({pattern})"] for pattern in _domain_patterns(said))
    else:
        yield from ([f"{tool}({pattern})"] for pattern in _path_patterns(said))


def _domain_patterns(url: str) -> list[str]:
    try:
        return [f"{DOMAIN_PREFIX}{parse_web_url(url).host}"]
    except Invalid:
        return []


def _command_grants(policy: PermissionPolicy, command: str) -> Iterator[list[str]]:
    asked = policy.parts_needing_approval(command)
    files = [(_TOOL_FOR_ACCESS[one.access], *_path_patterns(one.path or "")) for one in asked.redirections]
    for pattern, which in ((_exact_command, 0), (_subcommand_wildcard, -1)):
        programs = [f"{BASH_TOOL}({pattern(one.words)})" for one in asked.programs]
        yield programs + [f"{tool}({patterns[which]})" for tool, *patterns in files]


def _exact_command(words: ShellWords) -> str:
    return shlex.join(word if word is not None else "*" for word in words)


def _subcommand_wildcard(words: ShellWords) -> str:
    """Return a program with what it is to do, `git push *`, where that is told by the word after it."""
    if len(words) < 3 or words[1] is None or words[1].startswith("-"):
        return _exact_command(words)
    return f"{_exact_command(words[:2])} *"


def _path_patterns(path: str) -> list[str]:
    """Return patterns of a path, and of all that is in its folder."""
    place = normalize_path(path)
    # In a pattern these are no letters of a name.
    exact = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in place)
    folder = posixpath.dirname(exact)
    return [exact, f"{folder}/**"] if folder not in ("", "/") else [exact]
