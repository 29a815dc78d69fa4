"""Custom tools of a workspace: `tools/<name>/tool.json` and the files that its command needs."""

import os
import re
import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.tool import ToolClass, ToolSpec, check_tool_spec
from holdfast.tools.arguments import check_parameters
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.commands.custom_tool import BrokenTool, CustomTool
from holdfast.tools.tool import Tool
from holdfast.workspace.folder import Workspace
from holdfast.workspace.function_tools import function_names
from holdfast.workspace.json_files import SchemaUrl, decode_json
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.text_files import file_name, raise_invalid_file, read_text

TOOL_FILE_NAME: Final = "tool.json"
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
MAX_TIMEOUT_SECONDS: Final = 3_600

_TOOL_NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `tool.json`."""

    schema_: SchemaUrl = msgspec.field(name="$schema", default=None)
    name: Annotated[str, Meta(description="The name of the tool, equal to the name of its folder.")]
    description: Annotated[
        str,
        Meta(min_length=1, max_length=2_000, description="What the tool does and when to use it, for the model."),
    ]
    parameters: Annotated[
        dict[str, Json], Meta(description="The arguments of the tool, as a JSON Schema of an object.")
    ]
    command: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(
            min_length=1,
            max_length=100,
            description="The program and its arguments; a leading `./` is the folder of the tool.",
        ),
    ]
    class_: Annotated[
        Literal["idempotent", "effectful"],
        Meta(
            description="After a crash during a call: `idempotent` runs it again, `effectful` has an unknown outcome."
        ),
    ] = msgspec.field(name="class", default="effectful")
    read_only: Annotated[
        bool, Meta(description="It changes nothing: calls run in parallel, and again after a crash.")
    ] = False
    untrusted: Annotated[
        bool | UnsetType,
        Meta(
            description="Its results are third-party text, such as e-mail: a run that reads them is tainted. Unless it "
            "is set, this holds for calls with network access."
        ),
    ] = UNSET
    timeout_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_SECONDS)], Meta(description="Timeout of a call, in seconds.")
    ] = DEFAULT_TIMEOUT_SECONDS


class FolderTools:
    """The custom tools of a workspace. A tool that never was valid is included and returns its error when called."""

    def __init__(
        self,
        workspace: Workspace,
        commands: CommandRunner,
        *,
        reserved: Collection[str] = (),
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        """Read tools on demand; a custom tool may not have a name in `reserved`."""
        self._workspace = workspace
        self._commands = commands
        self._reserved = reserved
        self._throttle = PollThrottle(monotonic)
        self._files: dict[str, WatchedFiles[ToolFile]] = {}
        self._loaded: tuple[list[object], tuple[Tool, ...]] = ([], ())

    def get(self) -> tuple[Tool, ...]:
        """Return the tools, by name; the same objects as long as no file changes."""
        self._poll()
        return self._loaded[1]

    def broken(self) -> dict[str, str]:
        """Return the error messages of tools whose files are invalid now, by folder."""
        self._poll()
        return {name: files.error.message for name, files in self._files.items() if files.error is not None}

    def _poll(self) -> None:
        at = self._throttle.due()
        if at is None:
            return
        self._files = {
            name: self._files.get(name)
            or WatchedFiles(
                partial(read_tool, self._workspace, name, reserved=self._reserved),
                files=[self._workspace.tools / name / TOOL_FILE_NAME],
            )
            for name in tool_folders(self._workspace)
        }
        for files in self._files.values():
            files.poll(at=at)
        current = [
            (name, files.value, "" if files.error is None else files.error.message)
            for name, files in self._files.items()
            if _TOOL_NAME_PATTERN.fullmatch(name) and name not in self._reserved
        ]
        if current != self._loaded[0]:
            self._loaded = [*current], tuple(self._tool(name, file, error) for name, file, error in current)

    def _tool(self, name: str, file: ToolFile | None, error: str) -> Tool:
        if file is None:
            return BrokenTool(name, error)
        return CustomTool(
            _spec(file),
            file.command,
            folder=self._workspace.tools / name,
            commands=self._commands,
            trusted=file.untrusted is False,
        )


class KnownTools(Collection[str]):
    """The tool names that rules may use: fixed names, and all custom and function tools, including broken ones."""

    def __init__(self, workspace: Workspace, fixed: Collection[str]) -> None:
        self._workspace = workspace
        self._fixed = frozenset(fixed)

    def __contains__(self, name: object) -> bool:
        return name in self._fixed or name in self._custom()

    def __iter__(self) -> Iterator[str]:
        return iter(self._fixed.union(self._custom()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _custom(self) -> set[str]:
        return function_names(self._workspace).union(tool_folders(self._workspace))


def tool_folders(workspace: Workspace) -> list[str]:
    """Return the folders in `tools/` that contain a `tool.json`."""
    folder = workspace.tools
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise Unavailable(f"cannot list `tools`: {exc.strerror or exc}") from exc
    return [name for name in names if not name.startswith(".") and os.path.lexists(folder / name / TOOL_FILE_NAME)]


def read_tool(workspace: Workspace, name: str, *, reserved: Collection[str] = ()) -> ToolFile:
    """Return the content of `tools/<name>/tool.json`, or raise `Invalid` with the file and key."""
    path = workspace.tools / name / TOOL_FILE_NAME
    text, file = read_text(path, root=workspace.path), file_name(path, root=workspace.path)
    tool = decode_json(text, ToolFile, file=file)
    if tool.name != name:
        raise_invalid_file(file, f"`name` is `{tool.name}`, but the folder is `{name}`: give them the same name")
    if name in reserved:
        raise_invalid_file(file, f"a tool `{name}` exists already: rename this one")
    try:
        check_parameters(check_tool_spec(_spec(tool)))
    except Invalid as exc:
        raise_invalid_file(file, exc.message, cause=exc)
    return tool


def _spec(file: ToolFile) -> ToolSpec:
    return ToolSpec(
        name=file.name,
        description=file.description,
        parameters=file.parameters,
        kind=ToolClass.IDEMPOTENT if file.read_only else ToolClass(file.class_),
        read_only=file.read_only,
        untrusted=file.untrusted is True,
        timeout=file.timeout_seconds,
    )
