"""The folder of a workspace: its layout, and the files of a new one.

    agents/          one folder per agent
    tools/ skills/   shared by all agents
    settings.json    settings of all agents
    permissions.json calls that the operator allows in every space
    .holdfast/       data of Holdfast itself, ignored by git

People own all of it but the last. The files of a new workspace are in `scaffold`. All its agents but one follow a
script, so that they need no key and no network.
"""

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast.domain.agent import check_agent_name
from holdfast.domain.errors import Conflict, NotFound, Unavailable

_OWNER_ONLY: Final = 0o700
"""The database holds conversations, so only its owner may read it."""

_SCAFFOLD: Final = Path(__file__).parent / "scaffold"
_SCAFFOLD_FOLDERS: Final = ("agents", "tools", "skills")
_SCRIPTED_AGENT: Final = "hello"
"""The agent that follows a script whatever model is chosen, so that one always answers."""


class Workspace:
    """The paths of a workspace, a folder that contains `agents/`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self.agents = self.path / "agents"
        self.tools = self.path / "tools"
        self.skills = self.path / "skills"
        self.settings = self.path / "settings.json"
        self.permissions = self.path / "permissions.json"
        self.data_folder = self.path / ".holdfast"
        self.database = self.data_folder / "holdfast.db"
        """The default store; it may be PostgreSQL instead."""
        self.files = self.data_folder / "files"
        """Contents of artifacts and uploads."""
        self.bundles = self.data_folder / "bundles"
        """Versions of agents."""
        self.logs = self.data_folder / "logs"
        try:
            found = self.agents.is_dir()
        except OSError as exc:
            raise Unavailable(f"cannot read the folder `{path}`: {exc.strerror or exc}") from exc
        if not found:
            remedy = f"create one with `holdfast init {shlex.quote(str(path))}`"
            raise NotFound(f"`{path}` is not a workspace, it has no folder `agents`: {remedy}")

    @classmethod
    def create(cls, path: str | Path, *, model: str | None = None) -> Self:
        """Create a workspace at `path` without overwriting anything; its agents use `model`, if it is given."""
        folder, files = Path(path), _scaffold_files(model)
        existing = [name for name in (*_SCAFFOLD_FOLDERS, *files) if os.path.lexists(folder / name)]
        if existing:
            raise Conflict(f"`{path}` has `{existing[0]}` already: choose another folder, or use it as it is")
        try:
            for name in _SCAFFOLD_FOLDERS:
                (folder / name).mkdir(parents=True)
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                _write_new(folder / name, text)
        except OSError as exc:
            raise Unavailable(f"cannot create a workspace at `{path}`: {exc.strerror or exc}") from exc
        return cls(path)

    def create_agent(self, name: str, *, model: str, description: str = "") -> Path:
        """Create the folder of an agent with files to edit, and return it; one that exists is left alone."""
        folder = self.agents / check_agent_name(name)
        fields = {
            "model": model,
            **({"description": description} if description else {}),
            "tools": [],
            "skills": "auto",
        }
        try:
            folder.mkdir()
            _write_new(folder / "agent.json", json.dumps(fields, indent=2, ensure_ascii=False) + "\n")
            _write_new(folder / "AGENT.md", f"# {name}\n\n{description or 'Say here what the agent does, and how.'}\n")
        except FileExistsError as exc:
            raise Conflict(f"`{folder}` exists already: choose another name, or edit its files") from exc
        except OSError as exc:
            raise Unavailable(f"cannot create `{folder}`: {exc.strerror or exc}") from exc
        return folder

    def prepare(self) -> None:
        """Create the data folders of Holdfast if they do not exist."""
        try:
            self.data_folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            self.files.mkdir(exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                _write_new(self.data_folder / ".gitignore", "*\n")
        except OSError as exc:
            raise Unavailable(f"cannot use `{self.data_folder}`: {exc.strerror or exc}") from exc


def _write_new(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as new:
        new.write(text)


def _scaffold_files(model: str | None) -> dict[str, str]:
    """Return the files of a new workspace by their paths; with `model`, every agent but one uses it."""
    files = {}
    for file in sorted(each for each in _SCAFFOLD.rglob("*") if each.is_file()):
        text = file.read_text(encoding="utf-8")
        if model is not None and file.name == "agent.json" and file.parent.name != _SCRIPTED_AGENT:
            text = text.replace(json.dumps(json.loads(text)["model"]), json.dumps(model), 1)
        files[file.relative_to(_SCAFFOLD).as_posix()] = text
    return files
