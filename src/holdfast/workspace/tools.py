"""Custom tools of a workspace: `tools/<name>/tool.json` and the files that its command needs."""

import os
import re
import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.tool import ToolClass, ToolSpec, check_tool_spec
from holdfast.tools.arguments import check_parameters
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.commands.custom_tool import BrokenTool, CustomTool
from holdfast.tools.tool import Tool
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import decode_json
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.text_files import file_name, raise_invalid_file, read_text

TOOL_FILE_NAME: Final = "tool.json"
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
MAX_TIMEOUT_SECONDS: Final = 3_600

_TOOL_NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tool.json` may say."""

    schema_: Annotated[str | None, Meta(description="Where an editor finds this schema; it means nothing else.")] = (
        msgspec.field(name="$schema", default=None)
    )
    name: Annotated[str, Meta(description="The name of the tool, which is that of its folder.")]
    description: Annotated[
        str,
        Meta(min_length=1, max_length=2_000, description="What the model is told that it does, and when to use it."),
    ]
    parameters: Annotated[dict[str, Json], Meta(description="A JSON Schema of an object: what the tool takes.")]
    command: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(
            min_length=1,
            max_length=100,
            description="The program and its arguments; `./` at the beginning of one is the folder of the tool.",
        ),
    ]
    class_: Annotated[
        Literal["idempotent", "effectful"],
        Meta(description="What a crash in the middle means: run it again, or nobody knows what it did."),
    ] = msgspec.field(name="class", default="effectful")
    read_only: Annotated[
        bool, Meta(description="It changes nothing anywhere: calls run side by side, and again after a crash.")
    ] = False
    untrusted: Annotated[
        bool, Meta(description="What it answers was written by others, such as mail: whoever reads it is tainted.")
    ] = False
    timeout_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_SECONDS)], Meta(description="How long a call may take.")
    ] = DEFAULT_TIMEOUT_SECONDS


class FolderTools:
    """The custom tools as their files are now. One that never was good is there too, and says what is wrong with it."""

    def __init__(
        self,
        workspace: Workspace,
        commands: CommandRunner,
        *,
        reserved: Collection[str] = (),
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        """Read tools on demand; no name in `taken` can be that of a custom tool."""
        self._workspace = workspace
        self._commands = commands
        self._reserved = reserved
        self._throttle = PollThrottle(monotonic)
        self._files: dict[str, WatchedFiles[ToolFile]] = {}
        self._loaded: tuple[list[object], tuple[Tool, ...]] = ([], ())

    def get(self) -> tuple[Tool, ...]:
        """Return the tools, by name: the same ones as long as no file changes."""
        self._poll()
        return self._loaded[1]

    def broken(self) -> dict[str, str]:
        """Return what is wrong with those whose files are in error now, by the name of their folder."""
        self._poll()
        return {name: kept.error.message for name, kept in self._files.items() if kept.error is not None}

    def _usable(self) -> Iterator[tuple[str, WatchedFiles[ToolFile]]]:
        """Yield the tools whose names a model can call."""
        for name, kept in self._files.items():
            if _TOOL_NAME_PATTERN.fullmatch(name) and name not in self._reserved:
                yield name, kept

    def _tool(self, name: str, kept: WatchedFiles[ToolFile]) -> Tool:
        if kept.value is None:
            return BrokenTool(name, "" if kept.error is None else kept.error.message)
        folder = self._workspace.tools / name
        return CustomTool(_spec(kept.value), kept.value.command, folder=folder, commands=self._commands)

    def _poll(self) -> None:
        at = self._throttle.due()
        if at is None:
            return
        self._files = {name: self._files.get(name) or self._watch(name) for name in tool_folders(self._workspace)}
        for kept in self._files.values():
            kept.poll(at=at)
        now = [(name, kept.value, None if kept.error is None else kept.error.message) for name, kept in self._usable()]
        if now != self._loaded[0]:
            self._loaded = [*now], tuple(self._tool(name, kept) for name, kept in self._usable())

    def _watch(self, name: str) -> WatchedFiles[ToolFile]:
        file = self._workspace.tools / name / TOOL_FILE_NAME
        return WatchedFiles(partial(read_tool, self._workspace, name, reserved=self._reserved), files=[file])


class KnownTools(Collection[str]):
    """The names that rules may be about: some that are fixed, and those of custom tools, also of broken ones."""

    def __init__(self, workspace: Workspace, fixed: Collection[str]) -> None:
        self._workspace = workspace
        self._fixed = frozenset(fixed)

    def __contains__(self, name: object) -> bool:
        return name in self._fixed or name in tool_folders(self._workspace)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fixed.union(tool_folders(self._workspace)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def tool_folders(workspace: Workspace) -> list[str]:
    """Return the names of the folders that have something of a tool in them."""
    folder = workspace.tools
    try:
        found = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise Unavailable(f"cannot list `tools`: {exc.strerror or exc}") from exc
    return [name for name in found if not name.startswith(".") and os.path.lexists(folder / name / TOOL_FILE_NAME)]


def read_tool(workspace: Workspace, name: str, *, reserved: Collection[str] = ()) -> ToolFile:
    """Return what `tools/<name>/tool.json` says, or raise `Invalid` that names file and key."""
    path = workspace.tools / name / TOOL_FILE_NAME
    text, file = read_text(path, root=workspace.path), file_name(path, root=workspace.path)
    said = decode_json(text, ToolFile, file=file)
    if said.name != name:
        raise_invalid_file(file, f"`name` is `{said.name}`, but the folder is `{name}`: give them one name")
    if name in reserved:
        raise_invalid_file(file, f"there is a tool `{name}` already: rename this one")
    try:
        check_parameters(check_tool_spec(_spec(said)))
    except Invalid as exc:
        raise_invalid_file(file, exc.message, cause=exc)
    return said


def _spec(file: ToolFile) -> ToolSpec:
    kind = ToolClass.IDEMPOTENT if file.read_only else ToolClass(file.class_)
    return ToolSpec(
        name=file.name,
        description=file.description,
        parameters=file.parameters,
        kind=kind,
        read_only=file.read_only,
        untrusted=file.untrusted,
        timeout=file.timeout_seconds,
    )
