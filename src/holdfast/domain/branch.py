"""Two branches of a thread: where they part, and what each did from there on."""

import msgspec

from holdfast.domain.ids import RunId
from holdfast.domain.limits import ZERO_USAGE, Usage


class ForkPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The last message that two branches have in common, and the run it belongs to."""

    run_id: RunId
    sequence: int


class BranchTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch did after a message: its runs, steps, usage and time."""

    runs: int = 0
    usage: Usage = ZERO_USAGE
    tree_usage: Usage = ZERO_USAGE
    """The usage with that of all sub-agents."""
    duration_seconds: float = 0.0
    """The time that ended runs took, with their waiting."""
    model_calls: int = 0
    tool_calls: dict[str, int] = {}
    """Calls by the name of the tool."""
    failed_steps: int = 0
    unknown_steps: int = 0
