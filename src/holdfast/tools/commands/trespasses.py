"""What is said of files that a command made although the rules deny them: the model and the log are told."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.permission import PermissionAction
from holdfast.tools.content import as_text
from holdfast.tools.tool import Call, Outcome

MOST: Final = 10
"""Paths that are named."""


def with_trespasses(outcome: Outcome, call: Call, tool: str, paths: Sequence[str]) -> Outcome:
    """Return the outcome of a call as a failed one, if it made any; they are left for somebody to look at."""
    if not paths:
        return outcome
    named = ", ".join(f"`{path}`" for path in paths[:MOST])
    more = f" and {len(paths) - MOST} more" if len(paths) > MOST else ""
    reason = f"it has made {named}{more}, which the rules deny to be written"
    decided = PermissionDecided(tool_call_id=call.id, tool=tool, decision=PermissionAction.DENY, reason=reason)
    content = f"{as_text(outcome.content)}\n[{reason}: take that back, and tell whoever you work for]"
    return replace(outcome, content=content, failed=True, events=[*outcome.events, decided])
