"""Agents of a workspace: `agents/<name>/` with `agent.json`, `AGENT.md` and optionally `SOUL.md`.

Files are checked for changes when an agent is requested, in the caller's thread.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
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
from holdfast.workspace.json_files import check_rules, decode_json
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.settings import Settings, with_defaults
from holdfast.workspace.text_files import file_name, printable, raise_invalid_file, read_optional_text, read_text

AGENT_FILE_NAMES: Final = ("agent.json", "AGENT.md", "SOUL.md")
"""What an agent is read from; anything else in its folder is its own business."""
MAX_MODELS: Final = 8
MAX_DESCRIPTION_CHARS: Final = 2_000

_MODEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}:[^\x00-\x1f]{1,256}\Z"
_MODEL_EXPECTED: Final = "`provider:name`, such as `openai:gpt-5` or `scripted:script.json`"

ModelName: TypeAlias = Annotated[str, Meta(pattern=_MODEL_PATTERN, extra={"expected": _MODEL_EXPECTED})]
# Where a text with a pattern and a list are alternatives, msgspec 0.22 frees what it does not own. So here the pattern
# is for the schema, and the text is checked in code.
_OneModel: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": _MODEL_PATTERN})]
ToolNamePattern: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,63}\*?|\*)\Z",
        extra={"expected": "the name of a tool, such as `ask_user`, or the beginning of some, such as `plan_*`"},
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
    """What `agent.json` may say."""

    schema_: Annotated[str | None, Meta(description="Where an editor finds this schema; it means nothing else.")] = (
        msgspec.field(name="$schema", default=None)
    )
    model: Annotated[
        _OneModel | Annotated[list[ModelName], Meta(min_length=1, max_length=MAX_MODELS)],
        Meta(description="The model, `provider:name`; or a list: the model, and those to fall back on, in order."),
    ]
    description: Annotated[
        Description, Meta(description="What the agent is good for: people and other agents choose it by this.")
    ] = ""
    chat: Annotated[ModeSettings, Meta(description="Conversations with a person.")] = ModeSettings()
    task: Annotated[ModeSettings, Meta(description="Work that is handed over.")] = ModeSettings()
    daemon: Annotated[ModeSettings, Meta(description="Work on a schedule.")] = ModeSettings(enabled=False)
    tools: Annotated[list[ToolNamePattern], Meta(description="The tools that the agent may use.")] = []
    tools_shown: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="How many tools its model is shown at once, unless it is as the settings say."),
    ] = None
    permissions: Annotated[Permissions, Meta(description="Which calls are refused, approved or made.")] = Permissions()
    limits: Annotated[Limits, Meta(description="What a run may use, where it does not say so itself.")] = Limits()
    unknown_outcome: Annotated[
        UnknownOutcome,
        Meta(description="What to do when a crash cut a call off: tell the model, ask a person, or fail the run."),
    ] = UnknownOutcome.TELL
    tainted: Annotated[
        TaintPolicy,
        Meta(
            description="What to do about calls that reach beyond the workspace, once a run has read what others "
            "wrote: ask a person, or do as the rules say."
        ),
    ] = TaintPolicy.ASK
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="How freely the model chooses its words.")
    ] = None
    thinking: Annotated[
        ThinkingLevel | None, Meta(description="Whether the model thinks before it answers, and how hard.")
    ] = None
    mcp_servers: Annotated[
        dict[McpServerName, McpServer], Meta(description="MCP servers whose tools the agent may use, by name.")
    ] = {}
    skills: Annotated[list[SkillName], Meta(description="Skills that are active from the start.")] = []
    working_folder: Annotated[
        FolderName, Meta(description="Where its file tools work: a folder of the workspace that is not one of its own.")
    ] = DEFAULT_WORKING_FOLDER

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and re.match(_MODEL_PATTERN, self.model) is None:
            raise Invalid(f"expected {_MODEL_EXPECTED}", field="model")


def read_agent(workspace: Workspace, name: str, *, known: Collection[str] = KNOWN_TOOLS) -> Agent:
    """Return the agent that the files of `agents/<name>` define, or raise `Invalid` that names file and key.

    `known` are the tools that rules may be about.
    """
    folder = workspace.agents / name
    _check_name(name)
    settings, instructions = (read_text(folder / file, root=workspace.path) for file in AGENT_FILE_NAMES[:2])
    soul = read_optional_text(folder / AGENT_FILE_NAMES[2], root=workspace.path)
    if not instructions.strip():
        raise_invalid_file(
            file_name(folder / AGENT_FILE_NAMES[1], root=workspace.path), "is empty: write what the agent is to do"
        )
    json = file_name(folder / AGENT_FILE_NAMES[0], root=workspace.path)
    file = decode_json(settings, AgentFile, file=json)
    check_rules(file.permissions, settings, file=json, known=known)
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
        digest=_digest(settings, instructions, soul),
    )


def _check_name(name: str) -> None:
    try:
        check_agent_name(name)
    except Invalid as exc:
        raise_invalid_file(printable(f"agents/{name}"), f"{exc.message}: rename the folder", cause=exc)


def _digest(*texts: str | None) -> str:
    return sha256(msgspec.json.encode(texts)).hexdigest()


_REQUIRED_FILE_NAMES: Final = AGENT_FILE_NAMES[:2]


class FolderAgents:
    """`Agents` from files, with the defaults of the workspace. They are looked at when somebody asks, in its thread."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        settings: Callable[[], Settings] = Settings,
        known: Collection[str] = KNOWN_TOOLS,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._known = known
        self._grants = FolderGrants(workspace, known=known, monotonic=monotonic)
        self._throttle = PollThrottle(monotonic)
        self._agents: dict[str, WatchedFiles[Agent]] = {}
        self._with_defaults: dict[str, tuple[Settings, Agent]] = {}
        """The agents as they are given out, and by which settings. Since the last look, nothing else has changed."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; one that is broken raises `Invalid` unless it was good before."""
        self._poll()
        if name not in self._agents:
            self._poll(now=True)
        if name not in self._agents:
            raise NotFound(f"no agent `{name}`: it needs `agents/{name}/agent.json` and `agents/{name}/AGENT.md`")
        return self._complete(self._agents[name].get(), self._settings())

    def all(self) -> list[Agent]:
        """Return the agents that can be used, by name."""
        self._poll()
        settings = self._settings()
        return [self._complete(kept.value, settings) for kept in self._agents.values() if kept.value is not None]

    def broken(self) -> list[BrokenAgent]:
        """Return those whose files are in error now, by name."""
        self._poll()
        return [
            BrokenAgent(name=printable(name), file=kept.error.details["file"], message=kept.error.message)
            for name, kept in self._agents.items()
            if kept.error is not None
        ]

    def grant(self, name: str, rules: Sequence[str]) -> None:
        """Allow an agent what these rules say, from now on."""
        self._with_defaults.clear()
        self._grants.add(name, rules)

    def refresh(self) -> None:
        """Look at the files now, however short ago that was done."""
        self._poll(now=True)

    def _complete(self, agent: Agent, settings: Settings) -> Agent:
        """Return an agent with what the workspace says about it."""
        made = self._with_defaults.get(agent.name)
        if made is None or made[0] is not settings:
            granted, found = self._grants.rules_for(agent.name), with_defaults(agent, settings)
            made = self._with_defaults[agent.name] = (settings, replace(found, granted=granted) if granted else found)
        return made[1]

    def _poll(self, *, now: bool = False) -> None:
        at = self._throttle.due(now=now)
        if at is None:
            return
        self._with_defaults.clear()
        names = self._names()
        self._agents = {name: self._agents.get(name) or self._watch(name) for name in names}
        for kept in self._agents.values():
            kept.poll(at=at)
        self._grants.poll()

    def _names(self) -> list[str]:
        """Return the folders that have something of an agent in them."""
        folder = self._workspace.agents
        try:
            found = sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except OSError as exc:
            name = file_name(folder, root=self._workspace.path)
            raise Unavailable(f"cannot list `{name}`: {exc.strerror or exc}") from exc
        return [name for name in found if not name.startswith(".") and _is_agent(folder / name)]

    def _watch(self, name: str) -> WatchedFiles[Agent]:
        files = [self._workspace.agents / name / file for file in AGENT_FILE_NAMES]
        return WatchedFiles(partial(read_agent, self._workspace, name, known=self._known), files=files)


def _is_agent(folder: Path) -> bool:
    return any(os.path.lexists(folder / file) for file in _REQUIRED_FILE_NAMES)
