"""An agent: a folder with instructions, a model, and what it may use."""

from enum import StrEnum

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.limits import Limits
from holdfast.domain.run import Mode


class UnknownOutcome(StrEnum):
    """What to do about an effectful call that was cut off, when nobody knows whether it happened."""

    TELL = "tell"
    """Tell the model that it must verify."""
    ASK = "ask"
    """Ask a person."""
    FAIL = "fail"
    """End the run."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules `Tool` or `Tool(specifier)`: deny, then ask, then allow; the first that matches decides."""

    deny: list[str] = []
    ask: list[str] = []
    allow: list[str] = []


class ModeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the agent may be run in a mode."""

    enabled: bool = True


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
    permissions: Permissions = Permissions()
    limits: Limits = Limits()
    unknown_outcome: UnknownOutcome = UnknownOutcome.TELL
    temperature: float | None = None
    thinking: bool | str | None = None
    mcp_servers: dict[str, dict[str, Json]] = {}
    skills: list[str] = []
    folder: str | None = None
    digest: str = ""


def check_mode(agent: Agent, mode: Mode) -> None:
    """Raise unless `agent` may be run in `mode`."""
    settings = {Mode.CHAT: agent.chat, Mode.TASK: agent.task, Mode.DAEMON: agent.daemon}.get(mode)
    if settings is not None and not settings.enabled:
        raise Conflict(f"agent `{agent.name}` is not enabled for {mode}: set `{mode}.enabled` in its agent.json")
