"""Agents of a space: definitions that come with requests, checked and bundled as the files of an agent are.

The author of a request administers a space, not the machine. So such an agent starts no programs of its own as MCP
servers, reads no environment variables, and names no folder or script outside its own.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Final

from msgspec import UNSET

from holdfast.domain.agent import DEFAULT_WORKING_FOLDER, SCRIPT_PREFIX, check_agent_name
from holdfast.domain.agent_version import AgentDefinition, AgentHead, AgentPatch, NewAgentVersion
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.working_path import is_outside_workspace
from holdfast.ports.workspace import AgentVersions
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.tools.thread_pool import run_in_thread
from holdfast.workspace.agent_file import AgentFile, decode_agent_file
from holdfast.workspace.agents import AGENT_FILE_NAMES, AgentSource, ModelCheck, agent_files, make_agent
from holdfast.workspace.bundles import BundleCollector, BundleFolder
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import Settings
from holdfast.workspace.settings_file import merge_patch
from holdfast.workspace.skills import KnownSkills
from holdfast.workspace.text_files import MAX_FILE_BYTES

MAX_SCRIPTS: Final = 20

_SETTINGS: Final = "settings"
_IN_LINE: Final = re.compile(rf"{_SETTINGS}: line \d+: (?P<reason>(?P<key>[^:]*).*)", re.DOTALL)
_SCRIPT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\.json")


class SpaceAgentDefinitions:
    """`AgentDefinitions` beside the agents of a workspace."""

    def __init__(
        self,
        workspace: Workspace,
        versions: AgentVersions,
        *,
        settings: Callable[[], Settings] = Settings,
        tool_names: Collection[str] = KNOWN_TOOLS,
        check_models: ModelCheck = lambda _: None,
    ) -> None:
        self._workspace = workspace
        self._versions = versions
        self._settings = settings
        self._tool_names = tool_names
        self._check_models = check_models

    async def version(self, space: SpaceId, name: str, definition: AgentDefinition) -> NewAgentVersion:
        """Return the version that a definition makes."""
        check_agent_name(name)
        settings = self._settings()
        source, models = await run_in_thread(lambda _: self._source(space, name, definition, settings))
        try:
            self._check_models(models)
        except Invalid as exc:
            raise Invalid(f"settings.model: {exc.message}", field="settings.model") from exc
        # A collector of its own: another space may have an agent of this name.
        collector = BundleCollector(self._workspace, BundleFolder(self._workspace.bundles))
        return await run_in_thread(lambda _: collector.of(source))

    async def definition(self, space: SpaceId, head: AgentHead) -> AgentDefinition:
        """Return the active definition of an agent of a space."""
        folder = f"agents/{head.agent}/"
        bundle = (await self._versions.get(space, head.agent, head.active)).bundle
        own = {
            file.path.removeprefix(folder): file.digest
            for file in bundle.files
            if file.path.startswith(folder) and "/" not in file.path.removeprefix(folder)
        }
        contents = await self._versions.contents(space, head.agent, head.active, list(own.values()))
        texts = {path: contents[digest].decode() for path, digest in own.items()}
        settings, instructions, soul = (texts.pop(path, None) for path in AGENT_FILE_NAMES)
        return AgentDefinition(
            settings=json.loads(settings or "{}"),
            instructions=instructions or "",
            soul=soul,
            scripts={path: json.loads(text) for path, text in texts.items()},
        )

    def patched(self, definition: AgentDefinition, patch: AgentPatch) -> AgentDefinition:
        """Return a definition with the changes of a patch."""
        scripts = dict(definition.scripts)
        for script, content in ({} if patch.scripts is UNSET else patch.scripts).items():
            if content is None:
                scripts.pop(script, None)
            else:
                scripts[script] = content
        return AgentDefinition(
            settings=definition.settings
            if patch.settings is UNSET
            else merge_patch(AgentFile, definition.settings, patch.settings),
            instructions=definition.instructions if patch.instructions is UNSET else patch.instructions,
            soul=definition.soul if patch.soul is UNSET else patch.soul,
            scripts=scripts,
        )

    def _source(
        self, space: SpaceId, name: str, definition: AgentDefinition, present: Settings
    ) -> tuple[AgentSource, list[str]]:
        """Return the files of an agent, and its models; `present` are the settings of the workspace."""
        settings = json_text({"skills": "auto"} | definition.settings, field=_SETTINGS)
        instructions = _text(definition.instructions, field="instructions")
        if not instructions.strip():
            raise Invalid("instructions: is empty: write the instructions of the agent", field="instructions")
        soul = None if definition.soul is None else _text(definition.soul, field="soul")
        scripts = {name: text for name, text in script_texts(definition.scripts).items() if text is not None}
        try:
            file = decode_agent_file(
                settings,
                file=_SETTINGS,
                tool_names=self._tool_names,
                skill_names=partial(KnownSkills, self._workspace, name),
            )
        except Invalid as exc:
            raise _of_field(exc) from exc
        for field, reason in _operator_only(space, file, scripts, present):
            raise Invalid(f"settings.{field}: {reason}", field=f"settings.{field}")
        agent = make_agent(
            name,
            file,
            instructions=instructions,
            soul=soul,
            heartbeat_prompts={},
            folder=self._workspace.agents / name,
            digest=sha256(settings.encode()).hexdigest(),
        )
        own = agent_files(name, settings, instructions, soul, {})
        own |= {f"agents/{name}/{script}": text.encode() for script, text in scripts.items()}
        return AgentSource(agent, own), [*file.models, *file.distillers]


def _operator_only(
    space: SpaceId, file: AgentFile, scripts: Collection[str], present: Settings
) -> Iterator[tuple[str, str]]:
    """Yield the field and the reason of what only an operator may give an agent."""
    for server in file.mcp_servers:
        yield (
            f"mcp_servers.{server}",
            "an agent of a space declares no MCP servers: declare it in settings.json of the workspace, and list "
            f"its tools, such as `mcp__{server}__*`, in `tools`",
        )
    if file.working_folder is not None and (reason := _foreign_folder(space, file.working_folder, present)):
        yield "working_folder", reason
    if file.daemon.heartbeats or file.daemon.enabled is True:
        yield "daemon", "an agent of a space has no heartbeats: create a schedule for it instead"
    for model in [*file.models, *file.distillers]:
        script = model.removeprefix(SCRIPT_PREFIX)
        if model.startswith(SCRIPT_PREFIX) and script not in scripts:
            yield "model", f"there is no script `{script}` in `scripts`: add it there, or name another model"


def _foreign_folder(space: SpaceId, folder: str, present: Settings) -> str | None:
    """Return why an agent of a space may not work in a folder, if it may not."""
    if is_outside_workspace(folder):
        listed = present.project_folders.get(folder)
        if listed is None or space not in listed.spaces:
            return (
                f"`{folder}` is not in `project_folders` of settings.json for space `{space}`: list it there, or "
                "name a folder of the space"
            )
    elif space == DEFAULT_SPACE and folder.split("/")[0] != DEFAULT_WORKING_FOLDER:
        return f"`{folder}` is a folder of the workspace: name `{DEFAULT_WORKING_FOLDER}` or a folder in it"
    return None


def script_texts(scripts: Mapping[str, dict[str, Json] | None]) -> dict[str, str | None]:
    """Return the texts of scripts by file name, or raise `Invalid`; null stays null."""
    if len(scripts) > MAX_SCRIPTS:
        raise TooLarge(f"scripts: an agent has at most {MAX_SCRIPTS}", field="scripts", limit=MAX_SCRIPTS)
    for name in scripts:
        if _SCRIPT_NAME.fullmatch(name) is None or name in AGENT_FILE_NAMES:
            raise Invalid(
                "scripts: a script is named like `script.json`: 1 to 64 lower-case letters, digits, `_` or `-`, then "
                "`.json`, and not `agent.json`",
                field="scripts",
            )
    return {
        name: None if script is None else json_text(script, field=f"scripts.{name}") for name, script in scripts.items()
    }


def json_text(value: Json, *, field: str) -> str:
    """Return a value as the text of a JSON file, or raise `Invalid`."""
    try:
        return _text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", field=field)
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"{field}: cannot be written as JSON: {exc}", field=field) from exc


def _text(text: str, *, field: str) -> str:
    """Return a text that a file may have."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as exc:
        raise Invalid(f"{field}: has an unpaired surrogate", field=field) from exc
    if size > MAX_FILE_BYTES:
        raise TooLarge(f"{field}: has more than {MAX_FILE_BYTES} bytes", field=field, limit=MAX_FILE_BYTES)
    if "\x00" in text:
        raise Invalid(f"{field}: contains a NUL character", field=field)
    return text


def _of_field(error: Invalid) -> Invalid:
    """Return an error in the settings with the field of the request instead of a line."""
    found = _IN_LINE.fullmatch(error.message)
    if found is None:
        return Invalid(error.message, field=_SETTINGS)
    return Invalid(f"{_SETTINGS}.{found['reason']}", field=f"{_SETTINGS}.{found['key']}")
