"""Rules in files: one that can never match is told with its file and line."""

from collections.abc import Collection, Mapping
from typing import Final

from holdfast.domain.agent import Permissions
from holdfast.domain.validation import ValidationMessage
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS, rule_problems
from holdfast.workspace.typed_json import complain

LISTS: Final[Mapping[str, tuple[str, ...]]] = {name: ("permissions", name) for name in ("deny", "ask", "allow")}
"""Where the rules of `agent.json` and `settings.json` stand."""


def check_rules(
    permissions: Permissions,
    text: str,
    *,
    file: str,
    at: Mapping[str, tuple[str, ...]] = LISTS,
    known: Collection[str] = KNOWN_TOOLS,
) -> None:
    """Raise `Invalid` about the first rule that can never match; `at` is where each list stands in `text`."""
    for kind, place, reason in rule_problems(permissions, known=known):
        complain(file, text, ValidationMessage([*at[kind], place], reason))
