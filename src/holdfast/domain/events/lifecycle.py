"""The life of a run's segment, and of the steps in it."""

from typing import TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.domain.events.event import AgUiEvent, Attributed, Present
from holdfast.domain.events.input import Outcome, RunAgentInput, TokenUsage
from holdfast.domain.ids import RunId, ThreadId


class RunStarted(AgUiEvent, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """A segment begins; `parent_run_id` is the run that this one continues from."""

    thread_id: ThreadId
    run_id: RunId
    protocol_version: str | UnsetType = UNSET
    parent_run_id: RunId | UnsetType = UNSET
    input: RunAgentInput | UnsetType = UNSET


class RunFinished(AgUiEvent, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """A segment ended and did not fail; no outcome means success."""

    thread_id: ThreadId
    run_id: RunId
    result: Present | UnsetType = UNSET
    outcome: Outcome | UnsetType = UNSET
    usage: list[TokenUsage] | UnsetType = UNSET


class RunError(AgUiEvent, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """A segment failed."""

    message: str
    code: str | UnsetType = UNSET
    usage: list[TokenUsage] | UnsetType = UNSET


class StepStarted(Attributed, frozen=True, kw_only=True, tag="STEP_STARTED"):
    """A named step begins."""

    step_name: str


class StepFinished(Attributed, frozen=True, kw_only=True, tag="STEP_FINISHED"):
    """A named step is over."""

    step_name: str


Terminal: TypeAlias = RunFinished | RunError
RunEvent: TypeAlias = RunStarted | Terminal
StepEvent: TypeAlias = StepStarted | StepFinished
