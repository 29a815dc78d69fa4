"""Function tools of a workspace: `tools/<name>.py` with functions that have `@tool`.

The file runs in the sandbox, both to learn its tools and to call them; with `"function_tools": "in_process"` it is
imported by the server.
"""

import ast
import logging
import os
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.errors import HoldfastError, Invalid, Unavailable
from holdfast.domain.tool import ToolSpec
from holdfast.ports.sandbox import Sandbox, SandboxCommand
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.commands.custom_tool import BrokenTool, CustomTool
from holdfast.tools.function_host import load_functions
from holdfast.tools.thread_pool import run_in_thread
from holdfast.tools.tool import Tool
from holdfast.workspace.folder import Workspace

REFRESH_SECONDS: Final = 1.0
"""Time between two looks at the files."""
DESCRIBE_TIMEOUT_SECONDS: Final = 60.0
MAX_SOURCE_BYTES: Final = 1024 * 1024
_HOST: Final = (sys.executable, "-I", "-m", "holdfast.tools.function_host")
_log: Final = logging.getLogger("holdfast.workspace")


class FunctionTools:
    """The function tools of a workspace. A file that never was valid is one tool that returns its error when called."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        sandbox: Sandbox,
        commands: CommandRunner,
        in_process: bool,
        reserved: Collection[str] = (),
    ) -> None:
        self._workspace = workspace
        self._sandbox = sandbox
        self._commands = commands
        self._in_process = in_process
        self._reserved = reserved
        self._stamps: dict[str, object] = {}
        self._tools: dict[str, list[Tool]] = {}
        self.broken: dict[str, str] = {}
        """The error of each file that is invalid now, by its name."""

    def get(self) -> tuple[Tool, ...]:
        """Return the tools of all files; the same objects as long as no file changes."""
        return tuple(tool for name in sorted(self._tools) for tool in self._tools[name])

    async def refresh(self) -> None:
        """Load the files that changed since the last call."""
        files = {file.name: file for file in function_files(self._workspace)}
        for name in set(self._stamps) - set(files):
            del self._stamps[name]
            self._tools.pop(name, None)
            self.broken.pop(name, None)
        for name, file in files.items():
            stamp = _stamp(file)
            if self._stamps.get(name) != stamp:
                await self._load(file)
                self._stamps[name] = stamp

    async def _load(self, file: Path) -> None:
        try:
            tools = await self._read(file)
            taken = {tool.spec.name for name, others in self._tools.items() if name != file.name for tool in others}
            for tool in tools:
                if tool.spec.name in taken or tool.spec.name in self._reserved:
                    raise Invalid(f"a tool `{tool.spec.name}` exists already: rename the function")
        except HoldfastError as error:
            self.broken[file.name] = error.message
            kept = file.name in self._tools
            effect = "the last valid version stays in use" if kept else "cannot be used"
            _log.warning("tools/%s: %s (%s)", file.name, error.message, effect)
            self._tools.setdefault(file.name, [BrokenTool(file.stem, f"tools/{file.name}: {error.message}")])
        else:
            self.broken.pop(file.name, None)
            self._tools[file.name] = tools

    async def _read(self, file: Path) -> list[Tool]:
        if self._in_process:
            return [*(await run_in_thread(lambda _: load_functions(file))).values()]
        return [
            CustomTool(
                spec,
                [*_HOST, "call", str(file), spec.name],
                folder=file.parent,
                commands=self._commands,
                readable=python_folders(),
            )
            for spec in await describe_functions(self._sandbox, file)
        ]


async def describe_functions(sandbox: Sandbox, file: Path) -> list[ToolSpec]:
    """Return the specs of the functions in a file, which runs in the sandbox; raise `Invalid` if it cannot be used."""
    with tempfile.TemporaryDirectory(prefix="holdfast-tools-") as scratch:
        ended = await sandbox.run(
            SandboxCommand(
                argv=[*_HOST, "describe", str(file)],
                root=Path(scratch),
                folder=Path(scratch),
                readable=[file.parent, *python_folders()],
                timeout=DESCRIBE_TIMEOUT_SECONDS,
            )
        )
    if ended.exit_code != 0:
        lines = ended.errors.decode(errors="replace").strip().splitlines()
        raise Invalid(lines[-1] if lines else "it cannot be loaded")
    try:
        return msgspec.json.decode(ended.output, type=list[ToolSpec])
    except msgspec.DecodeError as exc:
        raise Invalid(f"its tools cannot be read: {exc}") from exc


def python_folders() -> list[Path]:
    """Return the folders of this Python and its packages, which a function may import."""
    package = Path(__file__).parents[2]
    return [*dict.fromkeys(map(Path, (sys.prefix, sys.base_prefix))), package]


def function_files(workspace: Workspace) -> list[Path]:
    """Return the files `tools/<name>.py`."""
    try:
        names = sorted(os.listdir(workspace.tools))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise Unavailable(f"cannot list `tools`: {exc.strerror or exc}") from exc
    return [workspace.tools / name for name in names if name.endswith(".py") and name[0] not in "._"]


def function_names(workspace: Workspace) -> set[str]:
    """Return the names of the function tools, from the source: nothing is run."""
    return {name for file in function_files(workspace) for name in functions_in(file)}


def functions_in(file: Path) -> list[str]:
    """Return the names of the function tools in a file, from its source."""
    try:
        nodes = ast.parse(file.read_bytes()[:MAX_SOURCE_BYTES]).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [name for node in nodes if (name := _tool_name(node)) is not None]


def _tool_name(node: ast.stmt) -> str | None:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    for decorator in node.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(function).rpartition(".")[2] != "tool":
            continue
        options: Mapping[str | None, ast.expr] = (
            {option.arg: option.value for option in decorator.keywords} if isinstance(decorator, ast.Call) else {}
        )
        given = options.get("name")
        return str(given.value) if isinstance(given, ast.Constant) else node.name
    return None


def _stamp(file: Path) -> object:
    try:
        found = file.stat()
    except OSError as exc:
        return str(exc)
    return found.st_mtime_ns, found.st_size, found.st_ino
