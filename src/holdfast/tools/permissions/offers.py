"""Which rules would have made a call without asking: what somebody is offered who wants to allow it always."""

import posixpath
import shlex
from collections.abc import Iterator
from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.mcp_server import server_of_tool, server_tool_prefix
from holdfast.domain.permission import PermissionAction
from holdfast.domain.web_url import parse_web_url
from holdfast.tools.permissions.checking import check_rule
from holdfast.tools.permissions.domains import PREFIX
from holdfast.tools.permissions.paths import normal
from holdfast.tools.permissions.policy import Policy
from holdfast.tools.permissions.shell.found import Access, Words
from holdfast.tools.permissions.subjects import BASH, SUBJECTS, SubjectKind

_OPENS: Final = {Access.READ: "read_file", Access.WRITE: "write_file"}


def offers(policy: Policy, tool: str, arguments: dict[str, Json]) -> list[list[str]]:
    """Return sets of rules, the narrowest first, each of which allows the call; none where no rule could."""
    sets = dict.fromkeys(tuple(dict.fromkeys(rules)) for rules in _candidates(policy, tool, arguments))
    return [list(rules) for rules in sets if _would_allow(policy, rules, tool, arguments)]


def _would_allow(policy: Policy, rules: tuple[str, ...], tool: str, arguments: dict[str, Json]) -> bool:
    try:
        for text in rules:
            check_rule(text, known={tool, *SUBJECTS}, allows=True)
    except Invalid:
        return False
    return (
        policy.granting(rules).decide(tool, arguments, default=PermissionAction.ASK).verdict is PermissionAction.ALLOW
    )


def _candidates(policy: Policy, tool: str, arguments: dict[str, Json]) -> Iterator[list[str]]:
    subject = SUBJECTS.get(tool)
    said = None if subject is None else arguments.get(subject.argument)
    if subject is None:
        yield [tool]
        if (server := server_of_tool(tool)) is not None:
            yield [f"{server_tool_prefix(server)}*"]
    elif not isinstance(said, str):
        return
    elif subject.kind is SubjectKind.COMMAND:
        yield from _commands(policy, said)
    elif subject.kind is SubjectKind.AGENT:
        yield [f"{tool}({said})"]
    elif subject.kind is SubjectKind.DOMAIN:
        yield from ([f"{tool}({pattern})"] for pattern in _hosts(said))
    else:
        yield from ([f"{tool}({pattern})"] for pattern in _paths(said))


def _hosts(url: str) -> list[str]:
    try:
        return [f"{PREFIX}{parse_web_url(url).host}"]
    except Invalid:
        return []


def _commands(policy: Policy, command: str) -> Iterator[list[str]]:
    asked = policy.asked_for(command)
    files = [(_OPENS[one.access], *_paths(one.path or "")) for one in asked.touched]
    for pattern, which in ((_exact, 0), (_wide, -1)):
        programs = [f"{BASH}({pattern(one.words)})" for one in asked.programs]
        yield programs + [f"{tool}({patterns[which]})" for tool, *patterns in files]


def _exact(words: Words) -> str:
    return shlex.join(word if word is not None else "*" for word in words)


def _wide(words: Words) -> str:
    """Return a program with what it is to do, `git push *`, where that is told by the word after it."""
    if len(words) < 3 or words[1] is None or words[1].startswith("-"):
        return _exact(words)
    return f"{_exact(words[:2])} *"


def _paths(path: str) -> list[str]:
    """Return patterns of a path, and of all that is in its folder."""
    place = normal(path)
    # In a pattern these are no letters of a name.
    exact = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in place)
    folder = posixpath.dirname(exact)
    return [exact, f"{folder}/**"] if folder not in ("", "/") else [exact]
