"""A step: one model call or one tool call of a run, which settles once.

The conversation says what a step did; the ledger adds only what messages cannot say: that it began, how often, and
under which key. So a step is `done` if and only if its message is in the same commit.
"""

from enum import StrEnum

import msgspec

from holdfast.domain.ids import ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Usage
from holdfast.domain.run import WaitsFor


class StepKind(StrEnum):
    """What was called."""

    MODEL = "model"
    TOOL = "tool"


class StepState(StrEnum):
    """How far it is."""

    STARTED = "started"
    WAITING = "waiting"
    """It began, and waits for a person, a child or a time."""
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def settled(self) -> bool:
        """Whether this is how it ended."""
        return self not in (StepState.STARTED, StepState.WAITING)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `effectful` says that it may have changed the world outside if it was cut off."""

    number: int
    kind: StepKind
    name: str
    key: str
    state: StepState = StepState.STARTED
    attempt: int = 1
    tool_call_id: ToolCallId | None = None
    effectful: bool = False
    request_digest: str | None = None
    waits_for: WaitsFor | None = None
    usage: Usage | None = None
    started_at: Instant | None = None
    settled_at: Instant | None = None
