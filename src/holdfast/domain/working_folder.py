"""The working folder of a run. It is decided here and nowhere else.

    listed in settings.json     the absolute path that the agent names, for the spaces listed with it
    default space               the folder of the workspace that the agent names, or `files`
    any other space             .holdfast/spaces/<space>/folders/<name>      the folder that the agent names
                                .holdfast/spaces/<space>/threads/<thread>    an agent that names none

Sub-agents, and tasks that a run spawns, that name no folder work in the folder of the run that started them all; in the
default space only if that is a listed one. A folder is identified by its path relative to the workspace, or by its
absolute path.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from holdfast.domain.agent import DEFAULT_WORKING_FOLDER, Agent
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.ids import SpaceId
from holdfast.domain.permission import inherited_rights
from holdfast.domain.run import Run
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.working_path import is_outside_workspace

SPACES_FOLDER: Final = ".holdfast/spaces"
"""The folder of the workspace that holds the files of every space but the default one. No agent can name it."""
MEMORY_FOLDER: Final = "memory"
"""The folder of memory files, of the workspace for the default space. No agent can name it as its working folder."""

_PLAIN_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_MAX_PLAIN_CHARS: Final = 128


def working_folder(run: Run, agent: Agent, values: Mapping[str, Json]) -> str:
    """Return the working folder of a run of `agent` with these values; `Conflict` if its space may not use it."""
    named, space, rights = agent.working_folder, run.space_id, inherited_rights(values)
    of_root = rights[0].folder if rights else None
    if named is None and of_root is not None and (space != DEFAULT_SPACE or is_outside_workspace(of_root)):
        folder = of_root
    elif named is None and space != DEFAULT_SPACE:
        folder = f"{space_folder(space)}/threads/{folder_name(run.root_thread_id)}"
    elif named is not None and is_outside_workspace(named):
        folder = named
    else:
        folder = named_folder(space, named or DEFAULT_WORKING_FOLDER)
    _check_listed(folder, agent, space)
    return folder


def check_working_folder(agent: Agent, space: SpaceId) -> None:
    """Raise `Conflict` if `agent` names a folder that a space may not use."""
    if agent.working_folder is not None:
        _check_listed(agent.working_folder, agent, space)


def _check_listed(folder: str, agent: Agent, space: SpaceId) -> None:
    if is_outside_workspace(folder) and space not in agent.project_folders.get(folder, ()):
        raise Conflict(
            f"agent `{agent.name}` works in a folder that space `{space}` may not use: "
            "list the space with that folder in `project_folders` of settings.json"
        )


def named_folder(space: SpaceId, name: str) -> str:
    """Return the folder of a space that agents and MCP servers call `name`."""
    return name if space == DEFAULT_SPACE else f"{space_folder(space)}/folders/{name}"


def space_folder(space: SpaceId) -> str:
    """Return the folder with all files of a space that is not the default one."""
    return f"{SPACES_FOLDER}/{folder_name(space)}"


def memory_folder(space: SpaceId) -> str:
    """Return the folder with the memory files of a space."""
    return MEMORY_FOLDER if space == DEFAULT_SPACE else f"{space_folder(space)}/{MEMORY_FOLDER}"


def folder_name(id: str) -> str:
    """Return a file name for an id: no two ids have the same one, even where upper and lower case are the same."""
    if id and len(id) <= _MAX_PLAIN_CHARS and _PLAIN_CHARACTERS.issuperset(id):
        return id
    readable = "".join(each if each in _PLAIN_CHARACTERS else "_" for each in id.lower()[:64])
    return f"{readable}.{sha256(id.encode(errors='surrogatepass')).hexdigest()[:32]}"
