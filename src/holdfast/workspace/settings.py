"""`settings.json`: settings of every agent of a workspace."""

import time
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, structs

from holdfast.domain.agent import DEFAULT_ANTI_DRIFT_EVERY, Agent, AgentName, Permissions
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer, McpServerName, ReadablePath
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.skill import SkillSettings
from holdfast.domain.thread import Locale
from holdfast.domain.validation import ValidationMessage
from holdfast.domain.web_settings import WebSettings
from holdfast.domain.working_path import ProjectPath
from holdfast.tools.exposure import DEFAULT_VISIBLE_TOOLS
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import SchemaUrl, check_rules, decode_json, raise_invalid_key
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.text_files import file_name, read_optional_text

DEFAULT_WORKERS: Final = 64

ProviderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z",
        extra={"expected": "1 to 64 lower-case letters, digits, `_` or `-`, beginning with a letter or a digit"},
    ),
]
SpaceName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]{1,128}\Z",
        extra={"expected": "the id of a space: 1 to 128 letters, digits, `_` or `-`"},
    ),
]
MODEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}:[^\x00-\x1f]{1,256}\Z"
MODEL_EXPECTED: Final = "`provider:name`, such as `openai:gpt-5` or `scripted:script.json`"
ModelName: TypeAlias = Annotated[str, Meta(pattern=MODEL_PATTERN, extra={"expected": MODEL_EXPECTED})]
IdentityText: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x20<>\x7f]([^\x00-\x1f<>\x7f]{0,198}[^\x00-\x20<>\x7f])?\Z",
        extra={"expected": "1 to 200 characters, without `<`, `>`, line breaks, and spaces at either end"},
    ),
]


EmbedderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(static|off|onnx:[^\x00-\x1f]{1,1000}|api:[^\x00-\x1f]{1,200})\Z",
        extra={"expected": "`static`, `off`, `onnx:FOLDER` or `api:MODEL`"},
    ),
]
HttpUrl: TypeAlias = Annotated[
    str, Meta(pattern=r"^https?://[^\x00-\x20]{1,2000}\Z", extra={"expected": "an http or https URL"})
]
VariableName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}\Z", extra={"expected": "the name of an environment variable"})
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


class RecallSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of recall."""

    embedder: Annotated[
        EmbedderName,
        Meta(
            description="What compares meanings: `static` (built in), `off` (words only), `onnx:FOLDER` (an encoder on "
            "disk), or `api:MODEL` (a server with an OpenAI-compatible `/embeddings`)."
        ),
    ] = "static"
    embedder_url: Annotated[
        HttpUrl | None, Meta(description="The base URL of the server of an `api:` embedder, before `/embeddings`.")
    ] = None
    embedder_dims: Annotated[
        Annotated[int, Meta(ge=1, le=16384)] | None,
        Meta(description="The length of the vectors of an `api:` embedder."),
    ] = None
    embedder_key: Annotated[
        VariableName | None,
        Meta(description="The environment variable with the key of an `api:` embedder; null sends none."),
    ] = None
    outline_model: Annotated[
        ModelName | None,
        Meta(description="The model that summarises threads after their runs; null does it by rule."),
    ] = None


class ProjectFolder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder outside the workspace that agents may name as their working folder."""

    spaces: Annotated[
        list[SpaceName], Meta(min_length=1, max_length=1000, description="The spaces whose runs may use the folder.")
    ]


class GitIdentity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Author and committer of commits."""

    name: Annotated[IdentityText, Meta(description="The name in commits.")]
    email: Annotated[IdentityText, Meta(description="The e-mail address in commits.")]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `settings.json`."""

    schema_: SchemaUrl = msgspec.field(name="$schema", default=None)
    providers: Annotated[
        dict[ProviderName, ProviderSettings],
        Meta(description="Model providers, by the name before the colon in the name of a model."),
    ] = {}
    direct_lane_off: Annotated[
        list[ProviderName],
        Meta(
            max_length=100,
            description="Providers whose models are always called by their library; read when the server starts.",
        ),
    ] = []
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
    function_tools: Annotated[
        Literal["sandbox", "in_process"],
        Meta(
            description="Where functions of `tools/<name>.py` run: in the sandbox of commands, or in the server, with "
            "all its rights; read when the server starts."
        ),
    ] = "sandbox"
    sandbox_reads: Annotated[
        list[ReadablePath],
        Meta(max_length=100, description="Paths of the machine that commands may read, besides the system folders."),
    ] = []
    project_folders: Annotated[
        dict[ProjectPath, ProjectFolder],
        Meta(
            max_length=100,
            description="Folders of the machine, by absolute path, that agents may name as their `working_folder`.",
        ),
    ] = {}
    git: Annotated[
        GitIdentity | None, Meta(description="The author of commits that commands of agents make; null sets none.")
    ] = None
    write_agents: Annotated[
        bool, Meta(description="Whether keys for every space may change the agents of the workspace over the API.")
    ] = False
    web: Annotated[WebSettings, Meta(description="Web access of agents.")] = WebSettings()
    context: Annotated[ContextSettings, Meta(description="Settings of the model context.")] = ContextSettings()
    recall: Annotated[RecallSettings, Meta(description="Settings of recall; read when the server starts.")] = (
        RecallSettings()
    )
    skills: Annotated[SkillSettings, Meta(description="Settings of skills.")] = SkillSettings()
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
        for problem in project_folder_problems(settings, self._workspace):
            raise_invalid_key(file, text, problem)
        return settings


def project_folder_problems(settings: Settings, workspace: Workspace) -> Iterator[ValidationMessage]:
    """Yield a problem for each project folder that would give an agent more than a project."""
    for text, folder in settings.project_folders.items():
        path, place = Path(text), ["project_folders", text]
        if path.is_relative_to(workspace.path) or workspace.path.is_relative_to(path):
            yield ValidationMessage(place, "is in the workspace or contains it: an agent could change agents there")
        for outer, other in settings.project_folders.items():
            if outer != text and path.is_relative_to(outer) and {*other.spaces} != {*folder.spaces}:
                reason = f"is in `{outer}`, which other spaces may use: list the same spaces for both"
                yield ValidationMessage(place, reason)


_DEFAULT_AGENT_SETTINGS: Final = (Limits(), Permissions(), ContextSettings(), None)


def with_defaults(agent: Agent, settings: Settings) -> Agent:
    """Return the agent merged with the settings of every agent; its digest then depends on them too."""
    if settings.project_folders:
        listed = {path: [SpaceId(space) for space in each.spaces] for path, each in settings.project_folders.items()}
        agent = structs.replace(agent, project_folders=listed)
    if settings.skills != agent.skill_settings:
        agent = structs.replace(agent, skill_settings=settings.skills)
    if (settings.limits, settings.permissions, settings.context, settings.locale) == _DEFAULT_AGENT_SETTINGS:
        return agent
    own_limits = {field: value for field, value in structs.asdict(agent.limits).items() if value not in (None, UNSET)}
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
