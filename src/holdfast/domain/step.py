"""A step: one model call or one tool call of a run, which settles once.

Messages hold the result of a step; the step records only what they cannot: that it started, its attempts and its key.
So a step is `done` if and only if its message is in the same commit.
"""

from enum import StrEnum

import msgspec

from holdfast.domain.ids import ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Usage
from holdfast.domain.run import WaitsFor


class StepKind(StrEnum):
    """Kind of call."""

    MODEL = "model"
    TOOL = "tool"


class StepState(StrEnum):
    """State of a step."""

    STARTED = "started"
    WAITING = "waiting"
    """Started, and waiting for a person, a child or a timer."""
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def settled(self) -> bool:
        """Whether the step has ended."""
        return self not in (StepState.STARTED, StepState.WAITING)


class Lane(StrEnum):
    """How a model call was sent to its provider."""

    DIRECT = "direct"
    """By Holdfast itself."""
    LIBRARY = "library"
    """By the provider's library."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call. If an `effectful` call was interrupted, it may have had an external effect."""

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
    lane: Lane | None = None
    """How a model call that is done was sent; null for a scripted model."""
