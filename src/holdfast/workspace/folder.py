"""The folder of a workspace, and where everything in it is.

    agents/          one folder per agent
    tools/ skills/   what agents share
    settings.json    what holds for all of them
    permissions.json what people allowed agents when they were asked
    .holdfast/       what Holdfast itself keeps; git does not see it

People own all of it but the last.
"""

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast.domain.errors import Conflict, NotFound, Unavailable
from holdfast.workspace.scaffold import FILES, FOLDERS

_PRIVATE: Final = 0o700
"""The database holds what people said: it is for its owner only."""


class Workspace:
    """A folder with `agents/` in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        try:
            found = self.agents.is_dir()
        except OSError as exc:
            raise Unavailable(f"cannot look into `{path}`: {exc.strerror or exc}") from exc
        if not found:
            make = f"make one with `holdfast init {shlex.quote(str(path))}`"
            raise NotFound(f"`{path}` is no workspace, it has no folder `agents`: {make}")

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Make a workspace at `path`: one agent needs no key, one is for a real model. Nothing there is touched."""
        folder = Path(path)
        there = [name for name in (*FOLDERS, *FILES) if os.path.lexists(folder / name)]
        if there:
            raise Conflict(f"`{path}` has `{there[0]}` already: choose another folder, or use it as it is")
        try:
            _fill(folder)
        except OSError as exc:
            raise Unavailable(f"cannot make a workspace at `{path}`: {exc.strerror or exc}") from exc
        return cls(path)

    @property
    def agents(self) -> Path:
        """One folder per agent."""
        return self.path / "agents"

    @property
    def tools(self) -> Path:
        """Tools that all agents may use."""
        return self.path / "tools"

    @property
    def skills(self) -> Path:
        """Skills that all agents may use."""
        return self.path / "skills"

    @property
    def settings(self) -> Path:
        """What holds for all agents."""
        return self.path / "settings.json"

    @property
    def permissions(self) -> Path:
        """What people allowed agents when they were asked."""
        return self.path / "permissions.json"

    @property
    def own(self) -> Path:
        """What Holdfast itself keeps."""
        return self.path / ".holdfast"

    @property
    def database(self) -> Path:
        """The log, unless it is on a server."""
        return self.own / "holdfast.db"

    @property
    def files(self) -> Path:
        """The bytes of artifacts and uploads."""
        return self.own / "files"

    @property
    def logs(self) -> Path:
        """What processes say about themselves."""
        return self.own / "logs"

    def prepare(self) -> None:
        """Make the folders that Holdfast itself keeps, if they are not there yet."""
        try:
            self.own.mkdir(mode=_PRIVATE, exist_ok=True)
            self.files.mkdir(exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                _write_new(self.own / ".gitignore", "*\n")
        except OSError as exc:
            raise Unavailable(f"cannot use `{self.own}`: {exc.strerror or exc}") from exc


def _fill(folder: Path) -> None:
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        _write_new(folder / name, text)


def _write_new(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
