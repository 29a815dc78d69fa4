"""Events of Holdfast without an AG-UI type: `CUSTOM` events named `holdfast.*`."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.artifact import ArtifactType
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events import Custom
from holdfast.domain.ids import ArtifactId, InterruptId, MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.permission import PermissionAction
from holdfast.domain.plan import PlanItem
from holdfast.domain.run import RunStatus
from holdfast.domain.run_skills import ActiveSkill, ContractOutcome, LeftOutSkill
from holdfast.domain.step import Step, StepKind, StepState


class StatusChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the run changed."""

    from_: RunStatus = msgspec.field(name="from")
    to: RunStatus
    reason: str | UnsetType = UNSET


class StepChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A step started or settled."""

    number: int
    kind: StepKind
    state: StepState
    key: str
    attempt: int
    tool_call_id: ToolCallId | UnsetType = UNSET


def step_changed(step: Step) -> StepChanged:
    """Return the event for the present state of a step."""
    return StepChanged(
        number=step.number,
        kind=step.kind,
        state=step.state,
        key=step.key,
        attempt=step.attempt,
        tool_call_id=UNSET if step.tool_call_id is None else step.tool_call_id,
    )


class PlanChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan after a change."""

    items: tuple[PlanItem, ...]


class ArtifactCreated(msgspec.Struct, frozen=True, kw_only=True):
    """The run created an artifact, or a new version of one."""

    artifact_id: ArtifactId
    type: ArtifactType
    title: str
    version: int
    media_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET


class BudgetSpent(msgspec.Struct, frozen=True, kw_only=True):
    """Usage and budgets of the run's tree; an unknown cost is omitted."""

    tokens: int
    cost_usd: float | UnsetType = UNSET
    token_budget: int | UnsetType = UNSET
    cost_budget_usd: float | UnsetType = UNSET


class MessagesAbandoned(msgspec.Struct, frozen=True, kw_only=True):
    """A model call was abandoned: its messages, streamed up to event `through`, are void."""

    message_ids: list[MessageId]
    through: int


class InterruptChanged(msgspec.Struct, frozen=True, kw_only=True):
    """An interrupt was opened, answered, or closed without a response."""

    interrupt_id: InterruptId
    status: InterruptStatus
    reason: str | UnsetType = UNSET
    tool_call_id: ToolCallId | UnsetType = UNSET
    answered_by: str | UnsetType = UNSET


class ChildChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A detached child run started or ended."""

    run_id: RunId
    thread_id: ThreadId
    status: RunStatus
    agent_type: str | UnsetType = UNSET
    tool_call_id: ToolCallId | UnsetType = UNSET


class AgentLogged(msgspec.Struct, frozen=True, kw_only=True):
    """The agent wrote a line into its log."""

    message: str


class ContextCompacted(msgspec.Struct, frozen=True, kw_only=True):
    """The context was compacted: messages up to sequence `through` are replaced for the model."""

    through: int
    tokens_before: int
    tokens_after: int


class FileAction(StrEnum):
    """Effect of a write on a file."""

    CREATED = "created"
    CHANGED = "changed"
    FOUND = "found"
    """The file already had the content: an interrupted attempt of the same call, or another writer, wrote it."""


class FileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the working folder was written. Digests are SHA-256; the diff may be truncated."""

    path: str
    action: FileAction
    size: int
    digest_after: str
    digest_before: str | UnsetType = UNSET
    diff: str | UnsetType = UNSET
    tool_call_id: ToolCallId | UnsetType = UNSET


class PermissionDecided(msgspec.Struct, frozen=True, kw_only=True):
    """A rule or a person decided about a call; a call by the tool's default has no event."""

    tool_call_id: ToolCallId
    tool: str
    decision: PermissionAction
    rule: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    arguments: Json | UnsetType = UNSET
    granted: list[str] | UnsetType = UNSET


class RunTainted(msgspec.Struct, frozen=True, kw_only=True):
    """The run read untrusted text: from now on, calls that reach beyond the workspace require approval."""

    source: str
    tool_call_id: ToolCallId | UnsetType = UNSET


class McpServerUnavailable(msgspec.Struct, frozen=True, kw_only=True):
    """The run goes on without the tools of an MCP server; `stderr` is the end of what the server wrote there."""

    server: str
    message: str
    remedy: str | UnsetType = UNSET
    stderr: str | UnsetType = UNSET


class FolderNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What a run should know about its working folder on a worker, which moves by snapshots."""

    state: Literal["unsaved", "missing", "conflict", "left_out", "not_saved"]
    message: str


class RetryScheduled(msgspec.Struct, frozen=True, kw_only=True):
    """A model call failed, the last of `failures` in a row: the run waits until `retry_at`, then it is made again."""

    message: str
    failures: int
    max_failures: int
    """Failures in a row after which the run fails."""
    retry_at: Instant


class SkillsChosen(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of the run were chosen, or the model activated one: all that are active, and those left out."""

    locale: str
    active: list[ActiveSkill]
    left_out: list[LeftOutSkill] = []


class SkillContractChecked(msgspec.Struct, frozen=True, kw_only=True):
    """The run ended, and the contract of an active skill was kept or broken, by this evidence."""

    skill: str
    kept: bool
    evidence: list[str]
    missing: list[str]


def contract_checked(outcome: ContractOutcome) -> SkillContractChecked:
    """Return the event for the outcome of a contract."""
    return SkillContractChecked(
        skill=outcome.skill, kept=outcome.kept, evidence=outcome.evidence, missing=outcome.missing
    )


HoldfastEvent: TypeAlias = (
    StatusChanged
    | StepChanged
    | PlanChanged
    | ArtifactCreated
    | BudgetSpent
    | MessagesAbandoned
    | InterruptChanged
    | ChildChanged
    | AgentLogged
    | ContextCompacted
    | FileChanged
    | PermissionDecided
    | RunTainted
    | McpServerUnavailable
    | FolderNotice
    | RetryScheduled
    | SkillsChosen
    | SkillContractChecked
)

CUSTOM_EVENT_TYPES: Final[Mapping[str, type[HoldfastEvent]]] = MappingProxyType(
    {
        "holdfast.status": StatusChanged,
        "holdfast.step": StepChanged,
        "holdfast.plan": PlanChanged,
        "holdfast.artifact": ArtifactCreated,
        "holdfast.budget": BudgetSpent,
        "holdfast.abandoned": MessagesAbandoned,
        "holdfast.interrupt": InterruptChanged,
        "holdfast.child": ChildChanged,
        "holdfast.log": AgentLogged,
        "holdfast.compaction": ContextCompacted,
        "holdfast.permission": PermissionDecided,
        "holdfast.taint": RunTainted,
        "holdfast.file": FileChanged,
        "holdfast.mcp": McpServerUnavailable,
        "holdfast.folder": FolderNotice,
        "holdfast.retry": RetryScheduled,
        "holdfast.skills": SkillsChosen,
        "holdfast.skill_contract": SkillContractChecked,
    }
)

_NAMES: Final = {type_: name for name, type_ in CUSTOM_EVENT_TYPES.items()}


def to_custom(event: HoldfastEvent) -> Custom:
    """Wrap `event` for the log."""
    return Custom(name=_NAMES[type(event)], value=msgspec.json.decode(msgspec.json.encode(event)))


def from_custom(event: Custom) -> HoldfastEvent | None:
    """Unwrap an event of Holdfast; null for other custom events."""
    type_ = CUSTOM_EVENT_TYPES.get(event.name)
    if type_ is None:
        return None
    try:
        return msgspec.convert(event.value, type_)
    except msgspec.ValidationError as exc:
        raise Invalid(f"not a `{event.name}` event: {exc}", name=event.name) from exc
