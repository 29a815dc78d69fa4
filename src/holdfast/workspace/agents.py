"""Agents of a workspace: `agents/<name>/` with `agent.json`, `AGENT.md` and optionally `SOUL.md`.

Files are checked for changes when an agent is requested, in the caller's thread.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.agent import (
    DEFAULT_WORKING_FOLDER,
    Agent,
    ModeSettings,
    Permissions,
    TaintPolicy,
    ThinkingLevel,
    UnknownOutcome,
    check_agent_name,
)
from holdfast.domain.errors import Invalid, NotFound, Unavailable
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer, McpServerName
from holdfast.domain.working_path import FolderName
from holdfast.ports.workspace import BrokenAgent
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.json_files import SchemaUrl, check_rules, decode_json
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.settings import Settings, with_defaults
from holdfast.workspace.text_files import file_name, printable, raise_invalid_file, read_optional_text, read_text

AGENT_FILE_NAMES: Final = ("agent.json", "AGENT.md", "SOUL.md")
"""The files that define an agent; other files in its folder are ignored."""
MAX_MODELS: Final = 8
MAX_DESCRIPTION_CHARS: Final = 2_000

_MODEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}:[^\x00-\x1f]{1,256}\Z"
_MODEL_EXPECTED: Final = "`provider:name`, such as `openai:gpt-5` or `scripted:script.json`"

ModelName: TypeAlias = Annotated[str, Meta(pattern=_MODEL_PATTERN, extra={"expected": _MODEL_EXPECTED})]
# msgspec 0.22 frees memory it does not own in a union of a list and a string with a pattern. So the pattern is only in
# the schema, and `__post_init__` checks the string.
_OneModel: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": _MODEL_PATTERN})]
ToolNamePattern: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,63}\*?|\*)\Z",
        extra={"expected": "the name of a tool, such as `ask_user`, or a prefix, such as `plan_*`"},
    ),
]
SkillName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z",
        extra={"expected": "1 to 64 letters, digits, `_` or `-`, beginning with a letter or a digit"},
    ),
]
Description: TypeAlias = Annotated[
    str,
    Meta(
        max_length=MAX_DESCRIPTION_CHARS, pattern=r"^[^\x00]*\Z", extra={"expected": "a text without a NUL character"}
    ),
]


class AgentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `agent.json`."""

    schema_: SchemaUrl = msgspec.field(name="$schema", default=None)
    model: Annotated[
        _OneModel | Annotated[list[ModelName], Meta(min_length=1, max_length=MAX_MODELS)],
        Meta(description="The model, `provider:name`; or a list of the model and its fallbacks, in order."),
    ]
    description: Annotated[
        Description, Meta(description="What the agent is for; people and other agents choose it by this text.")
    ] = ""
    chat: Annotated[ModeSettings, Meta(description="Conversations with a person.")] = ModeSettings()
    task: Annotated[ModeSettings, Meta(description="Tasks without a conversation.")] = ModeSettings()
    daemon: Annotated[ModeSettings, Meta(description="Work on a schedule.")] = ModeSettings(enabled=False)
    tools: Annotated[list[ToolNamePattern], Meta(description="The tools that the agent may use.")] = []
    tools_shown: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="How many tools the model sees at once; by default as in `settings.json`."),
    ] = None
    permissions: Annotated[Permissions, Meta(description="Which calls are denied, require approval or run.")] = (
        Permissions()
    )
    limits: Annotated[Limits, Meta(description="Default limits of a run.")] = Limits()
    unknown_outcome: Annotated[
        UnknownOutcome,
        Meta(description="After a crash interrupted a call: tell the model, ask a person, or fail the run."),
    ] = UnknownOutcome.TELL
    tainted: Annotated[
        TaintPolicy,
        Meta(
            description="For calls that reach beyond the workspace, once a run has read untrusted text: require "
            "approval, or apply the rules as usual."
        ),
    ] = TaintPolicy.ASK
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="The sampling temperature of the model.")
    ] = None
    thinking: Annotated[ThinkingLevel | None, Meta(description="The reasoning effort of the model.")] = None
    mcp_servers: Annotated[
        dict[McpServerName, McpServer], Meta(description="MCP servers whose tools the agent may use, by name.")
    ] = {}
    skills: Annotated[list[SkillName], Meta(description="Skills that are active from the start.")] = []
    working_folder: Annotated[
        FolderName, Meta(description="The root of its file tools: a folder of the workspace, but not a reserved one.")
    ] = DEFAULT_WORKING_FOLDER

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and re.match(_MODEL_PATTERN, self.model) is None:
            raise Invalid(f"expected {_MODEL_EXPECTED}", field="model")


def read_agent(workspace: Workspace, name: str, *, tool_names: Collection[str] = KNOWN_TOOLS) -> Agent:
    """Return the agent that the files of `agents/<name>` define, or raise `Invalid` with the file and key.

    Permission rules may name only `tool_names`.
    """
    folder, root = workspace.agents / name, workspace.path
    try:
        check_agent_name(name)
    except Invalid as exc:
        raise_invalid_file(printable(f"agents/{name}"), f"{exc.message}: rename the folder", cause=exc)
    settings, instructions = (read_text(folder / file, root=root) for file in AGENT_FILE_NAMES[:2])
    soul = read_optional_text(folder / AGENT_FILE_NAMES[2], root=root)
    json, markdown = (file_name(folder / file, root=root) for file in AGENT_FILE_NAMES[:2])
    if not instructions.strip():
        raise_invalid_file(markdown, "is empty: write the instructions of the agent")
    file = decode_json(settings, AgentFile, file=json)
    check_rules(file.permissions, settings, file=json, tool_names=tool_names)
    return Agent(
        name=name,
        description=file.description,
        models=[file.model] if isinstance(file.model, str) else file.model,
        instructions=instructions.strip(),
        soul=(soul or "").strip() or None,
        chat=file.chat,
        task=file.task,
        daemon=file.daemon,
        tools=list(dict.fromkeys(file.tools)),
        tools_shown=file.tools_shown,
        permissions=file.permissions,
        limits=file.limits,
        unknown_outcome=file.unknown_outcome,
        tainted=file.tainted,
        temperature=file.temperature,
        thinking=file.thinking,
        mcp_servers=file.mcp_servers,
        skills=list(dict.fromkeys(file.skills)),
        working_folder=file.working_folder,
        folder=str(folder),
        digest=sha256(msgspec.json.encode((settings, instructions, soul))).hexdigest(),
    )


class FolderAgents:
    """`Agents` from files, with the defaults of the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        settings: Callable[[], Settings] = Settings,
        tool_names: Collection[str] = KNOWN_TOOLS,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._tool_names = tool_names
        self._grants = FolderGrants(workspace, tool_names=tool_names, monotonic=monotonic)
        self._throttle = PollThrottle(monotonic)
        self._agents: dict[str, WatchedFiles[Agent]] = {}
        self._with_defaults: dict[str, tuple[Settings, Agent]] = {}
        """Agents merged with the settings they were merged with; cleared by every poll and grant."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; a broken agent raises `Invalid` unless it was valid before."""
        self._poll()
        if name not in self._agents:
            self._poll(now=True)
        if name not in self._agents:
            raise NotFound(f"no agent `{name}`: it needs `agents/{name}/agent.json` and `agents/{name}/AGENT.md`")
        return self._complete(self._agents[name].get(), self._settings())

    def all(self) -> list[Agent]:
        """Return the usable agents, by name."""
        self._poll()
        settings = self._settings()
        return [self._complete(files.value, settings) for files in self._agents.values() if files.value is not None]

    def broken(self) -> list[BrokenAgent]:
        """Return the agents whose files are invalid now, by name."""
        self._poll()
        return [
            BrokenAgent(name=printable(name), file=files.error.details["file"], message=files.error.message)
            for name, files in self._agents.items()
            if files.error is not None
        ]

    def grant(self, name: str, rules: Sequence[str]) -> None:
        """Allow an agent the calls that match `rules`, permanently."""
        self._with_defaults.clear()
        self._grants.add(name, rules)

    def refresh(self) -> None:
        """Check the files now, regardless of the poll interval."""
        self._poll(now=True)

    def _complete(self, agent: Agent, settings: Settings) -> Agent:
        """Return an agent with the settings and grants of the workspace."""
        cached = self._with_defaults.get(agent.name)
        if cached is not None and cached[0] is settings:
            return cached[1]
        granted, complete = self._grants.rules_for(agent.name), with_defaults(agent, settings)
        if granted:
            complete = replace(complete, granted=granted)
        self._with_defaults[agent.name] = (settings, complete)
        return complete

    def _poll(self, *, now: bool = False) -> None:
        at = self._throttle.due(now=now)
        if at is None:
            return
        self._with_defaults.clear()
        self._agents = {
            name: self._agents.get(name)
            or WatchedFiles(
                partial(read_agent, self._workspace, name, tool_names=self._tool_names),
                files=[self._workspace.agents / name / file for file in AGENT_FILE_NAMES],
            )
            for name in self._names()
        }
        for files in self._agents.values():
            files.poll(at=at)
        self._grants.poll()

    def _names(self) -> list[str]:
        """Return the folders that contain `agent.json` or `AGENT.md`."""
        folder = self._workspace.agents
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise Unavailable(f"cannot list `agents`: {exc.strerror or exc}") from exc
        return [
            name
            for name in names
            if not name.startswith(".") and any(os.path.lexists(folder / name / file) for file in AGENT_FILE_NAMES[:2])
        ]
