"""The environment of commands in a project folder: its Python virtual environment, and git.

A project folder is writable for its agent, and so is the `.venv` in it. What `.venv` says is therefore only a hint: the
interpreter that it leads to becomes readable only if it is a Python installation that no agent can write.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.ports.sandbox import DEFAULT_PATH

VIRTUAL_ENV_FOLDER: Final = ".venv"
SYSTEM_PROGRAM_FOLDERS: Final = ("/usr/bin", "/bin")
MAX_LINKS: Final = 16
"""Links that are followed from a virtual environment to its interpreter."""
MAX_CONFIG_BYTES: Final = 16 * 1024


class ProjectEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """Environment variables of a command, and further paths that it may read."""

    variables: Mapping[str, str] = {}
    readable: Sequence[Path] = ()


def project_environment(root: Path, *, written_by_agents: Sequence[Path]) -> ProjectEnvironment:
    """Return the environment of commands in a project folder; `written_by_agents` are folders without interpreters."""
    # Git refuses a repository of another user, unless it is named: the operator has listed this one.
    variables = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": str(root)}
    folder = root / VIRTUAL_ENV_FOLDER
    if ":" in str(root) or not (folder / "pyvenv.cfg").is_file():
        return ProjectEnvironment(variables=variables)
    path = f"{DEFAULT_PATH}:{folder}/bin" if _replaces_programs(folder / "bin") else f"{folder}/bin:{DEFAULT_PATH}"
    variables |= {"VIRTUAL_ENV": str(folder), "PATH": path}
    readable = dict.fromkeys(
        path for file in _interpreters(folder) for path in installation_paths(file, written_by_agents=written_by_agents)
    )
    return ProjectEnvironment(variables=variables, readable=tuple(readable))


def _replaces_programs(programs: Path) -> bool:
    """Return whether a folder has programs of the system other than Python: an agent may have written them.

    A rule that allows `ls` would otherwise run whatever file of that name the agent puts there.
    """
    try:
        names = [name for name in os.listdir(programs) if not name.startswith(("python", "pip"))]
    except OSError:
        return True
    return any(os.path.lexists(f"{folder}/{name}") for name in names for folder in SYSTEM_PROGRAM_FOLDERS)


def _interpreters(folder: Path) -> Iterator[Path]:
    """Yield the paths through which a virtual environment finds its interpreter."""
    path = folder / "bin" / "python"
    for _ in range(MAX_LINKS):
        try:
            path = Path(os.path.normpath(path.parent / os.readlink(path)))
        except OSError:
            break
        yield path
    try:
        with (folder / "pyvenv.cfg").open("rb") as file:
            lines = file.read(MAX_CONFIG_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return
    for key, _, value in (line.partition("=") for line in lines):
        if key.strip() == "home" and "\0" not in value:
            yield Path(os.path.normpath(Path(value.strip()) / "python3"))


def installation_paths(interpreter: Path, *, written_by_agents: Sequence[Path]) -> list[Path]:
    """Return the programs and libraries of the Python installation of an interpreter; none if it is not in one."""
    prefix = interpreter.parent.parent
    if interpreter.parent.name != "bin" or not interpreter.is_file():
        return []
    real = prefix.resolve()
    if any(path.is_relative_to(folder) for path in (prefix, real) for folder in written_by_agents):
        return []
    libraries = [path for path in (prefix / "lib").glob("python3.*") if (path / "os.py").is_file()]
    if not libraries:
        return []
    paths = [*(prefix / "bin").glob("python*"), *libraries, *(prefix / "lib").glob("libpython3*")]
    return [path for path in paths if path.resolve().is_relative_to(real)]
