"""An agent: a folder with instructions, a model, and what it may use."""

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
"""Whether a model thinks before it answers, and how hard."""

SCRIPTED_PROVIDER: Final = "scripted"
"""The provider of models that are scripts."""
SCRIPT_PREFIX: Final = f"{SCRIPTED_PROVIDER}:"
"""How the names of models begin that follow a script; the rest is the path of a file."""
DEFAULT_WORKING_FOLDER: Final = "files"
DEFAULT_ANTI_DRIFT_EVERY: Final = 10

_NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,63}\Z"
_RULE_PATTERN: Final = r"^([A-Za-z_][A-Za-z0-9_-]{0,63}(\([^\x00-\x1f]+\))?|mcp__[A-Za-z0-9_-]{1,58}\*)\Z"
_NAME_DESCRIPTION: Final = "1 to 64 lower-case letters, digits, `_` or `-`, not beginning with `_` or `-`"

# `extra["expected"]` is how a reader of files says it to people, instead of with the pattern.
AgentName: TypeAlias = Annotated[str, Meta(pattern=_NAME_PATTERN, extra={"expected": _NAME_DESCRIPTION})]
RuleText: TypeAlias = Annotated[
    str,
    Meta(pattern=_RULE_PATTERN, extra={"expected": "the name of a tool, or `tool(specifier)`, such as `bash(git *)`"}),
]
"""Which calls of a tool a permission is about: a misspelt one would never match, so it is refused."""


class UnknownOutcome(StrEnum):
    """What to do about an effectful call that was cut off, when nobody knows whether it happened."""

    TELL = "tell"
    """Tell the model that it must verify."""
    ASK = "ask"
    """Ask a person."""
    FAIL = "fail"
    """End the run."""


class TaintPolicy(StrEnum):
    """What to do about calls that reach beyond the workspace, once a run has read what others wrote."""

    ASK = "ask"
    """Ask a person, whatever rule allows them."""
    ALLOW = "allow"
    """What the rules say, as before."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules `Tool` or `Tool(specifier)`: deny, then ask, then allow; the first that matches decides."""

    deny: Annotated[list[RuleText], Meta(description="Calls that are refused.")] = []
    ask: Annotated[list[RuleText], Meta(description="Calls that a person must approve.")] = []
    allow: Annotated[list[RuleText], Meta(description="Calls that are made without asking.")] = []


class ModeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the agent may be run in a mode."""

    enabled: Annotated[bool, Meta(description="Whether the agent may be run in this mode.")] = True


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as its files define it. `digest` changes with any of them."""

    name: str
    description: str
    models: list[str]
    """The model, and those to fall back on, in order."""
    instructions: str
    """What `AGENT.md` says."""
    soul: str | None = None
    """What `SOUL.md` says."""
    chat: ModeSettings = ModeSettings()
    task: ModeSettings = ModeSettings()
    daemon: ModeSettings = ModeSettings(enabled=False)
    tools: list[str] = []
    tools_shown: int | None = None
    """How many of them its model is shown at once, if that is not the usual; with more it has to find some."""
    anti_drift_every: int | None = DEFAULT_ANTI_DRIFT_EVERY
    """After how many model calls it is reminded of its task, again and again; null is never."""
    locale: str | None = None
    """The language of threads that do not say so."""
    permissions: Permissions = Permissions()
    granted: list[str] = []
    """Rules that people wrote by answering "always allow": they come before those that ask."""
    limits: Limits = Limits()
    unknown_outcome: UnknownOutcome = UnknownOutcome.TELL
    tainted: TaintPolicy = TaintPolicy.ASK
    temperature: float | None = None
    thinking: ThinkingLevel | None = None
    mcp_servers: dict[str, McpServer] = {}
    """Servers of its own, whose tools it may use."""
    skills: list[str] = []
    working_folder: str = DEFAULT_WORKING_FOLDER
    """Where its file tools work, relative to the workspace."""
    folder: str | None = None
    digest: str = ""


def check_agent_name(name: str) -> str:
    """Return `name` if an agent may be called so."""
    if re.match(_NAME_PATTERN, name) is None:
        raise Invalid(f"an agent's name is {_NAME_DESCRIPTION}", field="name")
    return name


def candidate_models(agent: Agent, chosen: str | None) -> list[str]:
    """Return the models that a run may use: the agent's own, in order, or the other one that was chosen for it."""
    return agent.models if chosen is None or chosen == agent.models[0] else [chosen]


def check_requested_model(model: str) -> str:
    """Return the model if a request may choose it: that of a script is the path of a file, and leads nowhere else."""
    path = model.removeprefix(SCRIPT_PREFIX)
    if model.startswith(SCRIPT_PREFIX) and (path.startswith("/") or ".." in path.split("/")):
        raise Invalid("a script that is chosen for a run must be in the folder of its agent", field="model")
    return model


def check_mode(agent: Agent, mode: Mode) -> None:
    """Raise unless `agent` may be run in `mode`."""
    settings = {Mode.CHAT: agent.chat, Mode.TASK: agent.task, Mode.DAEMON: agent.daemon}.get(mode)
    if settings is not None and not settings.enabled:
        raise Conflict(f"agent `{agent.name}` is not enabled for {mode}: set `{mode}.enabled` in its agent.json")
