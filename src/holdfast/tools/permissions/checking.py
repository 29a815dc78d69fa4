"""Rules that can never match are found when they are loaded: somebody relies on each of them."""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from holdfast.domain.agent import Permissions
from holdfast.domain.errors import Invalid
from holdfast.domain.mcp_server import server_of_tool, server_tool_prefix
from holdfast.domain.permission import ParsedRule, parse_rule
from holdfast.domain.tool import REMOTE_METHOD_PREFIX
from holdfast.tools.built_ins import BUILT_IN
from holdfast.tools.permissions.commands import check_command_pattern, command_pattern
from holdfast.tools.permissions.domains import check_domain_pattern, domain_pattern
from holdfast.tools.permissions.paths import check_path_pattern
from holdfast.tools.permissions.shell.wrappers import is_looked_through
from holdfast.tools.permissions.subjects import SUBJECTS, SubjectKind
from holdfast.tools.suggestion import did_you_mean

KNOWN: Final = frozenset({*SUBJECTS, *BUILT_IN})
"""Tools that are there wherever Holdfast runs."""

_AGENT: Final = re.compile(r"[a-z0-9*][a-z0-9_*-]{0,63}")


class Problem(NamedTuple):
    """A rule that can never match: which list it is in, where, and why."""

    kind: str
    place: int
    reason: str


def problems(permissions: Permissions, *, known: Collection[str] = KNOWN) -> Iterator[Problem]:
    """Yield what is wrong with rules."""
    stricter: list[tuple[str, str]] = []
    for name in ("deny", "ask", "allow"):
        own: list[tuple[str, str]] = []
        for index, text in enumerate(getattr(permissions, name)):
            try:
                check_rule(text, known=known, allows=name == "allow")
                _check_reached(text, [*stricter, *own])
            except Invalid as exc:
                yield Problem(name, index, exc.message)
            else:
                own.append((name, text))
        stricter += own


def check_rule(text: str, *, known: Collection[str] = KNOWN, allows: bool = False) -> None:
    """Raise `Invalid` if no call can fit a rule."""
    parts = parse_rule(text)
    if parts.tool not in known and not _comes_and_goes(parts.tool):
        raise Invalid(f"there is no tool `{parts.tool}`{did_you_mean(parts.tool, known)}")
    if parts.specifier is None:
        return
    if parts.tool not in SUBJECTS:
        raise Invalid(f"rules of `{parts.tool}` have nothing in brackets: write `{parts.tool}`")
    match SUBJECTS[parts.tool].kind:
        case SubjectKind.PATH:
            check_path_pattern(parts.specifier)
        case SubjectKind.COMMAND:
            check_command_pattern(parts.specifier)
            _check_program(command_pattern(parts.specifier).program, allows=allows)
        case SubjectKind.AGENT:
            if _AGENT.fullmatch(parts.specifier) is None:
                raise Invalid("no agent has such a name: it has lower-case letters, digits, `_` and `-`; `*` is any")
        case SubjectKind.DOMAIN:
            check_domain_pattern(parts.specifier)


def _comes_and_goes(tool: str) -> bool:
    """Say whether a name is that of tools of clients or of MCP servers, which nobody knows before they are there."""
    server = server_of_tool(tool)
    if server is not None:
        return server != "" and tool.removeprefix(server_tool_prefix(server)) != ""
    return tool.startswith(REMOTE_METHOD_PREFIX) and not tool.endswith("*")


def _check_program(program: str, *, allows: bool) -> None:
    if allows and is_looked_through(program):
        raise Invalid(f"`{program}` is looked through: allow what it runs")


def _check_reached(text: str, before: list[tuple[str, str]]) -> None:
    """Raise if every call that fits is decided by a rule before it."""
    for name, earlier in before:
        if _covers(parse_rule(earlier), parse_rule(text)):
            raise Invalid(f"it is never reached: `{earlier}` in `{name}` comes first")


def _covers(one: ParsedRule, other: ParsedRule) -> bool:
    if one.tool != other.tool:
        return one.tool.endswith("*") and other.tool.startswith(one.tool[:-1])
    if one.specifier is None or one.specifier == other.specifier:
        return True
    if other.specifier is None or one.tool not in SUBJECTS:
        return False
    match SUBJECTS[one.tool].kind:
        case SubjectKind.COMMAND:
            return command_pattern(one.specifier).covers(command_pattern(other.specifier))
        case SubjectKind.DOMAIN:
            return domain_pattern(one.specifier).covers(domain_pattern(other.specifier))
        case _:
            return one.specifier in ("*", "**")
