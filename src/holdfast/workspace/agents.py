"""Agents of a workspace: `agents/<name>/` with `agent.json`, `AGENT.md` and optionally `SOUL.md`.

Files are checked for changes when an agent is requested, in the caller's thread.
"""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import (
    Agent,
    check_agent_name,
)
from holdfast.domain.errors import Invalid, NotFound, Unavailable
from holdfast.domain.thread import DEFAULT_AGENT
from holdfast.domain.validation import ValidationMessage
from holdfast.domain.working_path import is_outside_workspace
from holdfast.ports.workspace import BrokenAgent
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.agent_file import AgentFile, decode_agent_file
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.json_files import raise_invalid_key
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.settings import Settings, with_defaults
from holdfast.workspace.skills import SKILLS_FOLDER, KnownSkills
from holdfast.workspace.text_files import file_name, printable, raise_invalid_file, read_optional_text, read_text

AGENT_FILE_NAMES: Final = ("agent.json", "AGENT.md", "SOUL.md")
"""The files that define an agent; other files in its folder are ignored."""
HEARTBEAT_FOLDER: Final = "heartbeats"

_log: Final = logging.getLogger("holdfast.workspace")


class AgentSource(NamedTuple):
    """An agent, and the files that define it, by their path in a workspace."""

    agent: Agent
    files: dict[str, bytes]


ModelCheck: TypeAlias = Callable[[Sequence[str]], None]
"""Raises `Invalid` if one of these models cannot be used."""


def read_agent(
    workspace: Workspace,
    name: str,
    *,
    tool_names: Collection[str] = KNOWN_TOOLS,
    check_models: ModelCheck = lambda _: None,
) -> Agent:
    """Return the agent that the files of `agents/<name>` define, or raise `Invalid` with the file and key.

    Permission rules may name only `tool_names`.
    """
    return read_source(workspace, name, tool_names=tool_names, check_models=check_models).agent


def read_source(
    workspace: Workspace,
    name: str,
    *,
    tool_names: Collection[str] = KNOWN_TOOLS,
    check_models: ModelCheck = lambda _: None,
    texts: Mapping[str, str | None] = {},
) -> AgentSource:
    """Return an agent with its files, as `read_agent` does, as if `texts` were those of some of its files.

    Null is a file that is not there.
    """

    def read(file: str) -> str:
        text = texts[file] if file in texts else read_text(folder / file, root=root)
        return "" if text is None else text

    folder, root = workspace.agents / name, workspace.path
    try:
        check_agent_name(name)
    except Invalid as exc:
        raise_invalid_file(printable(f"agents/{name}"), f"{exc.message}: rename the folder", cause=exc)
    settings, instructions = map(read, AGENT_FILE_NAMES[:2])
    soul = texts.get(AGENT_FILE_NAMES[2]) or None
    if AGENT_FILE_NAMES[2] not in texts:
        soul = read_optional_text(folder / AGENT_FILE_NAMES[2], root=root)
    json, markdown = (file_name(folder / file, root=root) for file in AGENT_FILE_NAMES[:2])
    if not instructions.strip():
        raise_invalid_file(markdown, "is empty: write the instructions of the agent")
    file = decode_agent_file(
        settings, file=json, tool_names=tool_names, skill_names=partial(KnownSkills, workspace, name)
    )
    prompts = _read_heartbeats(folder, file, root=root, json=json, settings=settings)
    try:
        check_models([*file.models, *file.distillers])
    except Invalid as exc:
        raise_invalid_file(json, exc.message, cause=exc)
    agent = make_agent(
        name,
        file,
        instructions=instructions,
        soul=soul,
        heartbeat_prompts=prompts,
        folder=folder,
        digest=sha256(msgspec.json.encode((settings, instructions, soul, *prompts.items()))).hexdigest(),
    )
    return AgentSource(agent, agent_files(name, settings, instructions, soul, prompts))


def agent_files(
    name: str, settings: str, instructions: str, soul: str | None, prompts: Mapping[str, str]
) -> dict[str, bytes]:
    """Return the files of an agent by their path in a workspace."""
    texts = {AGENT_FILE_NAMES[0]: settings, AGENT_FILE_NAMES[1]: instructions}
    if soul is not None:
        texts[AGENT_FILE_NAMES[2]] = soul
    texts |= {f"{HEARTBEAT_FOLDER}/{heartbeat}.md": prompt for heartbeat, prompt in prompts.items()}
    return {f"agents/{name}/{path}": text.encode() for path, text in texts.items()}


def make_agent(
    name: str,
    file: AgentFile,
    *,
    instructions: str,
    soul: str | None,
    heartbeat_prompts: dict[str, str],
    folder: Path,
    digest: str,
) -> Agent:
    """Return the agent with the content of `agent.json` and these texts."""
    return Agent(
        name=name,
        description=file.description,
        models=file.models,
        instructions=instructions.strip(),
        soul=(soul or "").strip() or None,
        chat=file.chat,
        task=file.task,
        daemon=file.daemon,
        heartbeat_prompts=heartbeat_prompts,
        pool=file.pool,
        tools=list(dict.fromkeys(file.tools)),
        tools_shown=file.tools_shown,
        permissions=file.permissions,
        limits=file.limits,
        unknown_outcome=file.unknown_outcome,
        tainted=file.tainted,
        temperature=file.temperature,
        thinking=file.thinking,
        output=file.output,
        mcp_servers=file.mcp_servers,
        skills=file.skills if isinstance(file.skills, str) else list(dict.fromkeys(file.skills)),
        contract=file.contract,
        memory=file.memory,
        working_folder=file.working_folder,
        folder=str(folder),
        digest=digest,
    )


def _heartbeat_files(folder: Path) -> list[Path]:
    """Return the files in `heartbeats/`, by name."""
    try:
        names = sorted(os.listdir(folder / HEARTBEAT_FOLDER))
    except OSError:
        return []
    return [folder / HEARTBEAT_FOLDER / name for name in names if not name.startswith(".")]


def _read_heartbeats(folder: Path, file: AgentFile, *, root: Path, json: str, settings: str) -> dict[str, str]:
    """Return the prompts of the heartbeats; each heartbeat has a file, and each file a heartbeat."""
    prompts: dict[str, str] = {}
    for index, heartbeat in enumerate(file.daemon.heartbeats):
        path: list[str | int] = ["daemon", "heartbeats", index, "name"]
        name = f"{HEARTBEAT_FOLDER}/{heartbeat.name}.md"
        if heartbeat.name in prompts:
            raise_invalid_key(json, settings, ValidationMessage(path, f"`{heartbeat.name}` is there twice"))
        text = read_optional_text(folder / name, root=root)
        if text is None or not text.strip():
            reason = f"`{name}` is missing or empty: write the prompt of the heartbeat into it"
            raise_invalid_key(json, settings, ValidationMessage(path, reason))
        prompts[heartbeat.name] = text.strip()
    for found in _heartbeat_files(folder):
        if found.suffix != ".md" or found.stem not in prompts:
            raise_invalid_file(
                file_name(found, root=root),
                "line 1: belongs to no heartbeat: list it in `daemon.heartbeats` of agent.json, or delete it",
            )
    if file.daemon.enabled is True and not prompts:
        reason = "a daemon needs at least one heartbeat: list it with its `schedule`"
        raise_invalid_key(json, settings, ValidationMessage(["daemon", "heartbeats"], reason))
    return prompts


def _watched_files(folder: Path) -> list[Path]:
    skills = [folder / SKILLS_FOLDER, folder.parent.parent / SKILLS_FOLDER]  # one that it names may come or go
    return [
        *(folder / file for file in AGENT_FILE_NAMES),
        folder / HEARTBEAT_FOLDER,
        *_heartbeat_files(folder),
        *skills,
    ]


def _unlisted_folder(agent: Agent, settings: Settings) -> bool:
    folder = agent.working_folder
    return folder is not None and is_outside_workspace(folder) and folder not in settings.project_folders


def _check_folder_listed(agent: Agent, settings: Settings) -> None:
    if _unlisted_folder(agent, settings):
        raise_invalid_file(
            f"agents/{agent.name}/{AGENT_FILE_NAMES[0]}",
            f"working_folder: `{agent.working_folder}` is not in `project_folders` of settings.json: list it there "
            "with the spaces that may use it",
        )


class FolderAgents:
    """`Agents` from files, with the defaults of the workspace, whatever version is active."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        settings: Callable[[], Settings] = Settings,
        tool_names: Collection[str] = KNOWN_TOOLS,
        check_models: ModelCheck = lambda _: None,
        in_code: Sequence[AgentSource] = (),
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        """Read agents on demand, beside those that the program defines `in_code`."""
        self._workspace = workspace
        self._in_code = {source.agent.name: source for source in in_code}
        self._settings = settings
        self._tool_names = tool_names
        self._check_models = check_models
        self._grants = FolderGrants(workspace, tool_names=tool_names, monotonic=monotonic)
        self._throttle = PollThrottle(monotonic)
        self._agents: dict[str, WatchedFiles[AgentSource]] = {}
        self._with_defaults: dict[tuple[str, str | None], tuple[Agent, Settings, Agent]] = {}
        """Definitions merged with the settings, with what they were merged from; cleared by every poll."""
        self._folder_errors: dict[str, str] = {}
        """Logged errors of agents whose files are valid, but whose working folder the settings do not list."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; a broken agent raises `Invalid` unless it was valid before."""
        return self.complete(self.source(name).agent)

    def all(self) -> list[Agent]:
        """Return the usable agents, by name."""
        return [self.complete(source.agent) for source in self.sources()]

    def has(self, name: str) -> bool:
        """Return whether the workspace has an agent of this name, valid or not, as of the last look at the folders."""
        self._poll()
        return name in self._in_code or name in self._agents

    def source(self, name: str) -> AgentSource:
        """Return an agent as its files define it, or raise as `get` does."""
        self._poll()
        if name in self._in_code:
            return self._in_code[name]
        if name not in self._agents:
            self._poll(now=True)
        if name not in self._agents:
            other = "name another, or set `default_agent` in settings.json; " if name == DEFAULT_AGENT else ""
            raise NotFound(
                f"no agent `{name}`: {other}it needs `agents/{name}/agent.json` and `agents/{name}/AGENT.md`"
            )
        source = self._agents[name].get()
        _check_folder_listed(source.agent, self._settings())
        return source

    def sources(self) -> list[AgentSource]:
        """Return the usable agents as their files define them, by name."""
        self._poll()
        settings = self._settings()
        found = [files.value for files in self._agents.values() if files.value is not None]
        usable = [*self._in_code.values(), *(each for each in found if not _unlisted_folder(each.agent, settings))]
        return sorted(usable, key=lambda source: source.agent.name)

    def complete(self, agent: Agent) -> Agent:
        """Return a definition with the settings and rules that `source` or `sources` saw last."""
        settings, key = self._settings(), (agent.name, agent.version)
        cached = self._with_defaults.get(key)
        if cached is not None and cached[0] is agent and cached[1] is settings:
            return cached[2]
        _check_folder_listed(agent, settings)
        complete = with_defaults(agent, settings)
        granted = self._grants.rules_for(agent.name) if agent.space_id is None else []
        if granted:
            complete = replace(complete, granted=granted)
        self._with_defaults[key] = (agent, settings, complete)
        return complete

    def broken(self) -> list[BrokenAgent]:
        """Return the agents whose files are invalid now, by name."""
        self._poll()
        errors = {name: files.error or self._folder_error(files) for name, files in self._agents.items()}
        return [
            BrokenAgent(name=printable(name), file=error.details["file"], message=error.message)
            for name, error in errors.items()
            if error is not None
        ]

    def _folder_error(self, files: WatchedFiles[AgentSource]) -> Invalid | None:
        try:
            if files.value is not None:
                _check_folder_listed(files.value.agent, self._settings())
        except Invalid as error:
            return error
        return None

    def refresh(self) -> None:
        """Check the files now, regardless of the poll interval."""
        self._poll(now=True)

    def _poll(self, *, now: bool = False) -> None:
        at = self._throttle.due(now=now)
        if at is None:
            return
        self._with_defaults.clear()
        self._agents = {
            name: self._agents.get(name)
            or WatchedFiles(
                partial(
                    read_source, self._workspace, name, tool_names=self._tool_names, check_models=self._check_models
                ),
                files=partial(_watched_files, self._workspace.agents / name),
            )
            for name in self._names()
        }
        for files in self._agents.values():
            files.poll(at=at)
        self._log_folder_errors()
        self._grants.poll()

    def _log_folder_errors(self) -> None:
        found = {name: self._folder_error(files) for name, files in self._agents.items()}
        errors = {name: error.message for name, error in found.items() if error is not None}
        for name, message in errors.items():
            if self._folder_errors.get(name) != message:
                _log.warning("%s (cannot be used)", message)
        self._folder_errors = errors

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
