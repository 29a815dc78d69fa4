"""An agent: its instructions, models, tools, permissions and limits, as its folder defines them."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.cron import DEFAULT_TIMEZONE, check_cron
from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer
from holdfast.domain.run import Mode
from holdfast.domain.schedule import (
    MAX_JITTER_SECONDS,
    MAX_WINDOW_SECONDS,
    Misfire,
    Overlap,
    RunAction,
    SchedulePlan,
    check_schedule_plan,
)
from holdfast.domain.skill import ContractPolicy, SkillSettings
from holdfast.domain.worker import DEFAULT_POOL

ThinkingLevel: TypeAlias = bool | Literal["minimal", "low", "medium", "high", "xhigh"]
"""Reasoning effort of a model; true and false switch reasoning on and off."""

SkillChoice: TypeAlias = list[str] | Literal["*", "auto"]

SCRIPTED_PROVIDER: Final = "scripted"
SCRIPT_PREFIX: Final = f"{SCRIPTED_PROVIDER}:"
"""Prefix of a scripted model's name; the rest is the path of its script."""
DEFAULT_WORKING_FOLDER: Final = "files"
"""The working folder, in the default space, of agents that name none."""
DEFAULT_ANTI_DRIFT_EVERY: Final = 10

_NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,63}\Z"
_RULE_PATTERN: Final = r"^([A-Za-z_][A-Za-z0-9_-]{0,63}(\([^\x00-\x1f]+\))?|mcp__[A-Za-z0-9_-]{1,58}\*)\Z"
_NAME_DESCRIPTION: Final = "1 to 64 lower-case letters, digits, `_` or `-`, not beginning with `_` or `-`"

# Error messages show `extra["expected"]` instead of the pattern.
AgentName: TypeAlias = Annotated[str, Meta(pattern=_NAME_PATTERN, extra={"expected": _NAME_DESCRIPTION})]
RuleText: TypeAlias = Annotated[
    str,
    Meta(pattern=_RULE_PATTERN, extra={"expected": "the name of a tool, or `tool(specifier)`, such as `bash(git *)`"}),
]
"""A permission rule; a misspelt one would never match, so it is rejected."""


class UnknownOutcome(StrEnum):
    """Policy for an effectful call that was interrupted, so that its outcome is unknown."""

    TELL = "tell"
    """Tell the model that it must verify."""
    ASK = "ask"
    FAIL = "fail"


class TaintPolicy(StrEnum):
    """Policy for calls that reach beyond the workspace, once a run has read untrusted text."""

    ASK = "ask"
    """Require approval, even if a rule allows the call."""
    ALLOW = "allow"
    """Apply the rules as usual."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules `Tool` or `Tool(specifier)`: deny, then ask, then allow; the first match decides."""

    deny: Annotated[list[RuleText], Meta(description="Calls that are denied.")] = []
    ask: Annotated[list[RuleText], Meta(description="Calls that require approval.")] = []
    allow: Annotated[list[RuleText], Meta(description="Calls that run without approval.")] = []


class ModeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one mode of an agent. Only the tasks contract distinguishes an absent `enabled` from true."""

    enabled: Annotated[bool | UnsetType, Meta(description="Whether the agent may be run in this mode.")] = UNSET

    @property
    def allowed(self) -> bool:
        """Whether the agent may be run in this mode."""
        return self.enabled is not False


HeartbeatName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z",
        extra={"expected": "1 to 64 letters, digits, `_` or `-`, beginning with a letter or a digit"},
    ),
]


class HeartbeatSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A heartbeat of a daemon: when it runs, and how. Its prompt is in `heartbeats/<name>.md`."""

    name: Annotated[HeartbeatName, Meta(description="The name, and that of the file with its prompt.")]
    schedule: Annotated[str, Meta(description="A cron expression, such as `*/15 * * * *`.")]
    timezone: Annotated[str, Meta(description="An IANA time zone.")] = DEFAULT_TIMEZONE
    thread: Annotated[
        Literal["own", "new"], Meta(description="One thread for all runs of the heartbeat, or a new one each time.")
    ] = "own"
    overlap: Annotated[Overlap, Meta(description="What happens while the last run is still active.")] = Overlap.SKIP
    misfire: Annotated[Misfire, Meta(description="What happens to times that passed while no server ran.")] = (
        Misfire.ONCE
    )
    misfire_window_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_WINDOW_SECONDS)] | None,
        Meta(description="Times that were due longer ago than this are missed; null is no limit."),
    ] = 3_600
    jitter_seconds: Annotated[
        int, Meta(ge=0, le=MAX_JITTER_SECONDS, description="Each run is delayed by up to this many seconds.")
    ] = 0
    limits: Annotated[Limits, Meta(description="Limits of each run.")] = Limits()

    def __post_init__(self) -> None:
        check_cron(self.schedule, timezone=self.timezone, field="schedule")
        check_schedule_plan(self.plan(""))

    def plan(self, agent: str) -> SchedulePlan:
        """Return the plan of the heartbeat's schedule."""
        return SchedulePlan(
            action=RunAction(agent=agent or None, new_thread=self.thread == "new", limits=self.limits),
            cron=self.schedule,
            timezone=self.timezone,
            overlap=self.overlap,
            misfire=self.misfire,
            misfire_window_seconds=self.misfire_window_seconds,
            jitter_seconds=self.jitter_seconds,
        )


class DaemonSettings(ModeSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Work on a schedule."""

    heartbeats: Annotated[list[HeartbeatSettings], Meta(max_length=50, description="When it runs.")] = []


class RecallScope(StrEnum):
    """Part of a space's memory that is recalled for an agent."""

    SPACE = "space"
    """Everything: what was said on every thread, all memories, and the memory file of the space."""
    AGENT = "agent"
    """The memories that the agent made, and its own memory file."""
    THREAD = "thread"
    """What was said on the thread of the run, and the memories made there."""


class DistilSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Distillation of ended runs by a model, in a run of its own."""

    model: Annotated[str | None, Meta(description="The model, `provider:name`; by default the agent's own.")] = None
    every: Annotated[int, Meta(ge=1, le=100, description="After how many runs of a thread.")] = 1
    token_budget: Annotated[int, Meta(ge=1_000, le=1_000_000, description="Tokens of each distillation.")] = 50_000


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of an agent: what it is reminded of, and what is kept of its runs."""

    recall: Annotated[bool, Meta(description="Whether each user message is answered with what was said before.")] = True
    tokens: Annotated[int, Meta(ge=100, le=100_000, description="Tokens of the prompt for memory.")] = 4_000
    distil: Annotated[
        bool | DistilSettings, Meta(description="Whether a model distils its runs; true is with the defaults.")
    ] = False
    scopes: Annotated[
        tuple[RecallScope, ...], Meta(min_length=1, max_length=3, description="What is recalled, added up.")
    ] = (RecallScope.SPACE, RecallScope.AGENT)

    @property
    def distillation(self) -> DistilSettings | None:
        """The settings of distillation; null if it is off."""
        if isinstance(self.distil, bool):
            return DistilSettings() if self.distil else None
        return self.distil


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as its three files define it: `instructions` is `AGENT.md`, `soul` is `SOUL.md`, `digest` covers all."""

    name: str
    description: str
    models: list[str]
    """The model, then its fallbacks in order."""
    instructions: str
    soul: str | None = None
    chat: ModeSettings = ModeSettings()
    task: ModeSettings = ModeSettings()
    daemon: DaemonSettings = DaemonSettings(enabled=False)
    heartbeat_prompts: dict[str, str] = {}
    """The text of `heartbeats/<name>.md`, by name."""
    pool: str = DEFAULT_POOL
    """The pool of workers that execute its runs."""
    tools: list[str] = []
    tools_shown: int | None = None
    """Tools shown to the model at once, if not the default; it finds others with `tool_search`."""
    anti_drift_every: int | None = DEFAULT_ANTI_DRIFT_EVERY
    """Model calls between reminders of the task; null sends none."""
    locale: str | None = None
    """Language of threads without a locale of their own."""
    permissions: Permissions = Permissions()
    granted: list[str] = []
    """Rules of `permissions.json`; like the grants of a space, they take precedence over `ask` rules."""
    limits: Limits = Limits()
    unknown_outcome: UnknownOutcome = UnknownOutcome.TELL
    tainted: TaintPolicy = TaintPolicy.ASK
    temperature: float | None = None
    thinking: ThinkingLevel | None = None
    output: dict[str, Json] | None = None
    """The JSON Schema that the output of its runs must match."""
    mcp_servers: dict[str, McpServer] = {}
    skills: SkillChoice = []
    """Names of skills; `*` for all, `auto` for those that fit the request."""
    contract: ContractPolicy = ContractPolicy.RECORD
    skill_settings: SkillSettings = SkillSettings()
    memory: MemorySettings | None = None
    """Without it, nothing is recalled for its runs, and nothing is kept of them."""
    working_folder: str | None = None
    """The folder that it names: of the workspace or, as an absolute path, one that settings.json lists."""
    project_folders: Mapping[str, Sequence[SpaceId]] = {}
    """The folders outside the workspace that settings.json lists, each with the spaces that may use it."""
    space_id: SpaceId | None = None
    """The space that it belongs to; null for an agent of the workspace, which every space has."""
    folder: str | None = None
    digest: str = ""
    version: str | None = None
    """The digest of its bundle; null if it was read from files that are in no bundle."""


def check_agent_name(name: str) -> str:
    """Return `name` if it is a valid agent name."""
    if re.match(_NAME_PATTERN, name) is None:
        raise Invalid(f"an agent's name must be {_NAME_DESCRIPTION}", field="name")
    return name


def candidate_models(agent: Agent, chosen: str | None) -> list[str]:
    """Return the models to try for a run: the agent's, in order, or only the one `chosen` instead."""
    return agent.models if chosen is None or chosen == agent.models[0] else [chosen]


def check_requested_model(model: str) -> str:
    """Return `model` if a request may choose it: the path of a script must stay in the folder of the agent."""
    path = model.removeprefix(SCRIPT_PREFIX)
    if model.startswith(SCRIPT_PREFIX) and (path.startswith("/") or ".." in path.split("/")):
        raise Invalid("the script of a requested model must be in the folder of its agent", field="model")
    return model


def check_mode(agent: Agent, mode: Mode) -> None:
    """Raise unless `agent` may be run in `mode`."""
    settings = {Mode.CHAT: agent.chat, Mode.TASK: agent.task, Mode.DAEMON: agent.daemon}.get(mode)
    if settings is not None and not settings.allowed:
        raise Conflict(f"agent `{agent.name}` is not enabled for {mode}: set `{mode}.enabled` in its agent.json")
