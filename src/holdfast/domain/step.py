"""A step: one model call or one tool call of a run, which settles once.

Messages hold the result of a step; the step records only what they cannot: that it started, its attempts and its key.
So a step is `done` if and only if its message is in the same commit.
"""

from enum import StrEnum

import msgspec

from holdfast.domain.ids import RunId, ToolCallId
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
    first_token_at: Instant | None = None
    """When a model call that has settled sent its first token."""


class StepAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a step, and the worker that made it."""

    attempt: int
    worker: str | None
    started_at: Instant | None


class RecordedStep(Step, frozen=True, kw_only=True):
    """A step as readers of a tree of runs see it."""

    run_id: RunId
    child_run_id: RunId | None = None
    """The run that a tool call spawned."""
    worker: str | None = None
    """The worker of the last attempt."""
    attempts: list[StepAttempt] = []
    """All attempts; the last one is the current one."""
