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
from holdfast.domain.mcp_server import McpServer, McpServerName, ReadablePath
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.web_settings import WebSettings
from holdfast.tools.exposure import DEFAULT_VISIBLE_TOOLS
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import SchemaUrl, check_rules, decode_json
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


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the model context."""

    anti_drift_every: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Model calls between reminders of the task; null sends none."),
    ] = DEFAULT_ANTI_DRIFT_EVERY
    tools_shown: Annotated[
        Annotated[int, Meta(ge=1, le=1000)],
        Meta(description="How many tools a model sees at once; it finds others with `tool_search`."),
    ] = DEFAULT_VISIBLE_TOOLS


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """OpenTelemetry settings."""

    traces: Annotated[
        bool, Meta(description="Whether spans of runs, model calls and tool calls are exported, as set by `OTEL_*`.")
    ] = False
    capture_content: Annotated[
        bool, Meta(description="Whether spans contain messages and tool content; off, only names and numbers.")
    ] = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `settings.json`."""

    schema_: SchemaUrl = msgspec.field(name="$schema", default=None)
    providers: Annotated[
        dict[ProviderName, ProviderSettings],
        Meta(description="Model providers, by the name before the colon in the name of a model."),
    ] = {}
    limits: Annotated[Limits, Meta(description="Limits of every agent without its own.")] = Limits()
    permissions: Annotated[
        Permissions, Meta(description="Rules for every agent, before its own; a call that is denied here stays denied.")
    ] = Permissions()
    mcp_servers: Annotated[
        dict[McpServerName, McpServer],
        Meta(description="MCP servers, by name, for agents that list their tools, such as `mcp__github__*`."),
    ] = {}
    default_agent: Annotated[AgentName | None, Meta(description="The agent of requests that name none.")] = None
    locale: Annotated[
        Locale | None, Meta(description="The default language of threads; null leaves it to the model.")
    ] = None
    workers: Annotated[
        Annotated[int, Meta(ge=1, le=1000)], Meta(description="How many runs a process executes concurrently.")
    ] = DEFAULT_WORKERS
    sandbox: Annotated[
        Literal["on", "off"],
        Meta(description="Whether commands of agents run in a sandbox; off, they have all rights of the server."),
    ] = "on"
    sandbox_reads: Annotated[
        list[ReadablePath],
        Meta(max_length=100, description="Paths of the machine that commands may read, besides the system folders."),
    ] = []
    web: Annotated[WebSettings, Meta(description="Web access of agents.")] = WebSettings()
    context: Annotated[ContextSettings, Meta(description="Settings of the model context.")] = ContextSettings()
    telemetry: Annotated[
        TelemetrySettings, Meta(description="OpenTelemetry settings; read when the server starts.")
    ] = TelemetrySettings()


class FolderSettings:
    """The current settings; while the file is invalid, those of its last valid version."""

    def __init__(
        self, workspace: Workspace, *, tool_names: Collection[str] = KNOWN_TOOLS, monotonic: Monotonic = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._tool_names = tool_names
        self._throttle = PollThrottle(monotonic)
        self._files = WatchedFiles(self._read, files=[workspace.settings], required=True)

    def get(self) -> Settings:
        """Return the settings, or raise `Invalid` if they never were valid. A missing file counts as an empty one."""
        self._poll()
        return self._files.get()

    def broken(self) -> Invalid | None:
        """Return the error of the file, if it is invalid now."""
        self._poll()
        return self._files.error

    def refresh(self) -> None:
        """Check the file now, regardless of the poll interval."""
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
        check_rules(settings.permissions, text, file=file, tool_names=self._tool_names)
        return settings


_DEFAULT_AGENT_SETTINGS: Final = (Limits(), Permissions(), ContextSettings(), None)


def with_defaults(agent: Agent, settings: Settings) -> Agent:
    """Return the agent merged with the settings of every agent; its digest then depends on them too."""
    if (settings.limits, settings.permissions, settings.context, settings.locale) == _DEFAULT_AGENT_SETTINGS:
        return agent
    own_limits = {field: value for field, value in structs.asdict(agent.limits).items() if value is not None}
    digest = msgspec.json.encode([agent.digest, settings.limits, settings.permissions, settings.context])
    return structs.replace(
        agent,
        limits=structs.replace(settings.limits, **own_limits),
        tools_shown=agent.tools_shown or settings.context.tools_shown,
        anti_drift_every=settings.context.anti_drift_every,
        locale=settings.locale,
        permissions=Permissions(
            deny=settings.permissions.deny + agent.permissions.deny,
            ask=settings.permissions.ask + agent.permissions.ask,
            allow=settings.permissions.allow + agent.permissions.allow,
        ),
        digest=sha256(digest).hexdigest(),
    )
