"""`settings.json`: settings of every agent of a workspace."""

import time
from collections.abc import Collection
from hashlib import sha256
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, structs

from holdfast.domain.agent import DEFAULT_ANTI_DRIFT_EVERY, Agent, AgentName, Permissions
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer, McpServerName
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.web_settings import WebSettings
from holdfast.tools.exposure import DEFAULT_VISIBLE_TOOLS
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import check_rules, decode_json
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.text_files import file_name, read_optional_text

DEFAULT_WORKERS: Final = 16

ProviderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z",
        extra={"expected": "1 to 64 lower-case letters, digits, `_` or `-`, beginning with a letter or a digit"},
    ),
]
Locale: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}\Z",
        extra={"expected": "a language tag, such as `en`, `ja` or `pt-BR`"},
    ),
]


AbsolutePath: TypeAlias = Annotated[
    str, Meta(pattern=r"^/[^\x00]+\Z", extra={"expected": "an absolute path, such as `/opt/node`"})
]


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model is told."""

    anti_drift_every: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="After how many model calls a run is reminded of its task, again and again; null is never."),
    ] = DEFAULT_ANTI_DRIFT_EVERY
    tools_shown: Annotated[
        Annotated[int, Meta(ge=1, le=1000)],
        Meta(description="How many tools a model is shown at once; of an agent with more it has to find some."),
    ] = DEFAULT_VISIBLE_TOOLS


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is told to those who watch over a server."""

    traces: Annotated[
        bool, Meta(description="Whether spans of runs, model calls and tool calls are sent, as `OTEL_*` says where to.")
    ] = False
    capture_content: Annotated[
        bool, Meta(description="Whether spans hold what people, models and tools say; off, only names and numbers.")
    ] = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `settings.json` may say."""

    schema_: Annotated[str | None, Meta(description="Where an editor finds this schema; it means nothing else.")] = (
        msgspec.field(name="$schema", default=None)
    )
    providers: Annotated[
        dict[ProviderName, ProviderSettings],
        Meta(description="Servers of models, by the name that stands before the colon in the name of a model."),
    ] = {}
    limits: Annotated[Limits, Meta(description="Limits of every agent that does not set its own.")] = Limits()
    permissions: Annotated[
        Permissions, Meta(description="Rules for every agent, before its own; what is denied here stays denied.")
    ] = Permissions()
    mcp_servers: Annotated[
        dict[McpServerName, McpServer],
        Meta(description="MCP servers, by name, for agents that name tools of theirs, such as `mcp__github__*`."),
    ] = {}
    default_agent: Annotated[AgentName | None, Meta(description="The agent of those who name none.")] = None
    locale: Annotated[
        Locale | None, Meta(description="The language of threads that do not say so; null leaves it to the model.")
    ] = None
    workers: Annotated[
        Annotated[int, Meta(ge=1, le=1000)], Meta(description="How many runs a process works on at a time.")
    ] = DEFAULT_WORKERS
    sandbox: Annotated[
        Literal["on", "off"],
        Meta(description="Whether commands of agents run in a sandbox; off, they have all rights of the server."),
    ] = "on"
    sandbox_reads: Annotated[
        list[AbsolutePath],
        Meta(max_length=100, description="What commands may read of the machine, beside what a system keeps for all."),
    ] = []
    web: Annotated[WebSettings, Meta(description="What agents may do on the web.")] = WebSettings()
    context: Annotated[ContextSettings, Meta(description="What a model is told.")] = ContextSettings()
    telemetry: Annotated[
        TelemetrySettings, Meta(description="What is told to those who watch over a server; read when it starts.")
    ] = TelemetrySettings()


class FolderSettings:
    """The settings as they are now; while they are in error, as they were when they were last good."""

    def __init__(
        self, workspace: Workspace, *, known: Collection[str] = KNOWN_TOOLS, monotonic: Monotonic = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._known = known
        self._throttle = PollThrottle(monotonic)
        self._files = WatchedFiles(self._read, files=[workspace.settings], required=True)

    def get(self) -> Settings:
        """Return the settings; those that never were good raise `Invalid`. No file is the same as an empty one."""
        self._poll()
        return self._files.get()

    def broken(self) -> Invalid | None:
        """Return what is wrong with the file now."""
        self._poll()
        return self._files.error

    def refresh(self) -> None:
        """Look at the file now, however short ago that was done."""
        self._poll(now=True)

    def _poll(self, *, now: bool = False) -> None:
        at = self._throttle.due(now=now)
        if at is not None:
            self._files.poll(at=at)

    def _read(self) -> Settings:
        root, path = self._workspace.path, self._workspace.settings
        text, file = read_optional_text(path, root=root), file_name(path, root=root)
        if text is None:
            return Settings()
        settings = decode_json(text, Settings, file=file)
        check_rules(settings.permissions, text, file=file, known=self._known)
        return settings


def _has_default_agent_settings(settings: Settings) -> bool:
    return (settings.limits, settings.permissions, settings.context, settings.locale) == _DEFAULT_AGENT_SETTINGS


_DEFAULT_AGENT_SETTINGS: Final = (Limits(), Permissions(), ContextSettings(), None)


def with_defaults(agent: Agent, settings: Settings) -> Agent:
    """Return the agent with what the settings say for every agent. Its digest then changes with them too."""
    if _has_default_agent_settings(settings):
        return agent
    limits = {**structs.asdict(settings.limits), **_explicit_limits(agent.limits)}
    return structs.replace(
        agent,
        limits=Limits(**limits),
        tools_shown=agent.tools_shown or settings.context.tools_shown,
        anti_drift_every=settings.context.anti_drift_every,
        locale=settings.locale,
        permissions=Permissions(
            deny=settings.permissions.deny + agent.permissions.deny,
            ask=settings.permissions.ask + agent.permissions.ask,
            allow=settings.permissions.allow + agent.permissions.allow,
        ),
        digest=_digest(agent.digest, settings),
    )


def _explicit_limits(limits: Limits) -> dict[str, float]:
    return {field: value for field, value in structs.asdict(limits).items() if value is not None}


def _digest(agent: str, settings: Settings) -> str:
    return sha256(msgspec.json.encode([agent, settings.limits, settings.permissions, settings.context])).hexdigest()
