"""An agent: its instructions, models, tools, permissions and limits, as its folder defines them."""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer
from holdfast.domain.run import Mode

ThinkingLevel: TypeAlias = bool | Literal["minimal", "low", "medium", "high", "xhigh"]
"""Reasoning effort of a model; true and false switch reasoning on and off."""

SCRIPTED_PROVIDER: Final = "scripted"
SCRIPT_PREFIX: Final = f"{SCRIPTED_PROVIDER}:"
"""Prefix of a scripted model's name; the rest is the path of its script."""
DEFAULT_WORKING_FOLDER: Final = "files"
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
    """Settings of one mode of an agent."""

    enabled: Annotated[bool, Meta(description="Whether the agent may be run in this mode.")] = True


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
    daemon: ModeSettings = ModeSettings(enabled=False)
    tools: list[str] = []
    tools_shown: int | None = None
    """Tools shown to the model at once, if not the default; it finds others with `tool_search`."""
    anti_drift_every: int | None = DEFAULT_ANTI_DRIFT_EVERY
    """Model calls between reminders of the task; null sends none."""
    locale: str | None = None
    """Language of threads without a locale of their own."""
    permissions: Permissions = Permissions()
    granted: list[str] = []
    """Rules from approvals "always allow"; they take precedence over `ask` rules."""
    limits: Limits = Limits()
    unknown_outcome: UnknownOutcome = UnknownOutcome.TELL
    tainted: TaintPolicy = TaintPolicy.ASK
    temperature: float | None = None
    thinking: ThinkingLevel | None = None
    mcp_servers: dict[str, McpServer] = {}
    skills: list[str] = []
    working_folder: str = DEFAULT_WORKING_FOLDER
    """Root of its file tools, relative to the workspace."""
    folder: str | None = None
    digest: str = ""


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
    if settings is not None and not settings.enabled:
        raise Conflict(f"agent `{agent.name}` is not enabled for {mode}: set `{mode}.enabled` in its agent.json")
