"""The `bash` tool: a shell command in the working folder; its current directory is a run value.

`untrusted_output_source` decides from the command text whether the output may hold words from outside the workspace:
from files it names or from the network. It sees what is written, not what only the shell knows (`~`) or what a script
does.
"""

import secrets
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass, ToolReach
from holdfast.domain.untrusted import taint_source_name
from holdfast.domain.working_path import MAX_PATH_BYTES, WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.ports.sandbox import ProcessResult
from holdfast.tools.commands.command_runner import CommandRunner, decode_output, exit_notes, with_violations
from holdfast.tools.permissions.patterns import normalize_path
from holdfast.tools.permissions.rules import BASH_TOOL, RULE_SUBJECTS
from holdfast.tools.permissions.shell.parser import parse_script
from holdfast.tools.permissions.shell.script import ShellScript
from holdfast.tools.tool import ToolContext, ToolResult, encode_value
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

SHELL_VALUE: Final = "shell"


class ShellState(msgspec.Struct, frozen=True, kw_only=True):
    """The shell of a run."""

    folder: str = WORKING_ROOT


def shell_folder(values: Mapping[str, Json]) -> WorkingPath:
    """Return where the next command begins, relative to the working folder."""
    try:
        return parse_working_path(msgspec.convert(values.get(SHELL_VALUE) or {}, ShellState).folder)
    except (Invalid, msgspec.ValidationError):
        return WORKING_ROOT  # nothing that we wrote


def shell_folder_value(folder: WorkingPath) -> dict[str, Json]:
    """Return the value of a run whose shell is there."""
    return {SHELL_VALUE: encode_value(ShellState(folder=folder))}


def arguments_for_rules(tool: str, arguments: dict[str, Json], values: Mapping[str, Json]) -> dict[str, Json]:
    """Return arguments as rules are to read them: they take a command to begin in the working folder."""
    argument = RULE_SUBJECTS[BASH_TOOL].argument
    command, folder = arguments.get(argument), shell_folder(values)
    if tool != BASH_TOOL or folder == WORKING_ROOT or not isinstance(command, str):
        return arguments
    return {**arguments, argument: f"cd {shlex.quote(folder)}\n{command}"}


NETWORK_PROGRAMS: Final = frozenset(
    {"aria2c", "curl", "elinks", "ftp", "gh", "http", "https", "links", "lynx", "nc", "ncat", "rsync", "scp", "sftp"}
    | {"ssh", "telnet", "w3m", "wget", "xh"}
)
"""Programs that show what others on the network say."""
SYSTEM_FOLDERS: Final = (
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
)
"""What a system keeps for all; of `/tmp` a sandbox has its own."""


def untrusted_output_source(command: str, *, root: Path, network: bool) -> str | None:
    """Return whose words the output of a command may have, if not only those of the workspace at `root`."""
    script = parse_script(command)
    for name in _program_names(script) if network else ():
        if name in NETWORK_PROGRAMS:
            return taint_source_name("network", name)
    return next((taint_source_name("file", path) for path in _possible_paths(script) if _is_outside(path, root)), None)


def _program_names(script: ShellScript) -> Iterator[str]:
    for program in script.programs:
        if program.words[0] is not None:
            yield program.words[0].rpartition("/")[2]


def _possible_paths(script: ShellScript) -> Iterator[str]:
    """Yield whatever may name a file, also behind the `=` of an option."""
    for program in script.programs:
        for word in program.words[1:]:
            if word is not None:
                yield word
                yield word.rpartition("=")[2]
    for touched in script.redirections:
        if touched.path is not None:
            yield touched.path


def _is_outside(word: str, root: Path) -> bool:
    path = normalize_path(word) if word else "."
    if not path.startswith("/"):
        return path.split("/")[0] == ".."
    return not any(path == folder or path.startswith(f"{folder}/") for folder in (*SYSTEM_FOLDERS, str(root)))


MAX_COMMAND_CHARS: Final = 100_000
"""Characters."""
DEFAULT_COMMAND_SECONDS: Final = 120
MAX_COMMAND_SECONDS: Final = 3_600
MAX_STARTUP_ERROR_BYTES: Final = 4_000
"""Bytes that are told of why no shell could begin."""
BASH_MARGIN_SECONDS: Final = 60.0
"""Seconds that a call has beside those of its command, to start it and to see that all of it is gone."""
FOLDER_GONE_MESSAGE: Final = "`{}` is gone, so nothing was run: the shell is back in the working folder"

# Both outputs are one, in the order in which they come. What was the second then says where the shell is at its end, in
# words that begin with what nobody can guess.
_WRAPPER_SCRIPT: Final = """\
exec 3>&2 2>&1
trap 'printf "%s%s" {mark} "$PWD" >&3' EXIT
eval "$1"
"""


class BashArguments(ToolArguments, frozen=True, kw_only=True):
    """Run a shell command in your working folder, and read what it writes.

    The next one begins where you went with `cd`.
    """

    command: Annotated[
        str, Meta(min_length=1, max_length=MAX_COMMAND_CHARS, description="The command, as bash reads it.")
    ]
    timeout_seconds: Annotated[
        int, Meta(ge=1, le=MAX_COMMAND_SECONDS, description="How long it may take before it is killed.")
    ] = DEFAULT_COMMAND_SECONDS


BASH_SPEC: Final = tool_spec(
    BashArguments,
    name=BASH_TOOL,
    kind=ToolClass.EFFECTFUL,
    timeout=MAX_COMMAND_SECONDS + BASH_MARGIN_SECONDS,
    reach=ToolReach.COMMANDS,
)


def bash(commands: CommandRunner) -> TypedTool[BashArguments]:
    """Return the tool."""

    async def run(call: ToolContext, asked: BashArguments) -> ToolResult:
        folder = shell_folder(call.values)
        if not await commands.has_folder(call, folder):
            # Meant for that folder, it might do harm in another.
            return ToolResult(
                content=FOLDER_GONE_MESSAGE.format(folder), failed=True, values=shell_folder_value(WORKING_ROOT)
            )
        mark = secrets.token_hex(16)
        ran = await commands.run(
            call,
            ["/bin/bash", "-c", _WRAPPER_SCRIPT.format(mark=mark), "bash", asked.command],
            folder=folder,
            seconds=asked.timeout_seconds,
            show_if=lambda piece: not piece.startswith(mark.encode()),
        )
        ended = ran.ended
        now = _final_folder(ended, mark, root=commands.root(call)) or folder
        notes = exit_notes(ended, timeout=asked.timeout_seconds)
        if now != WORKING_ROOT:
            notes.append(f"the shell is in `{now}`")
        outcome = ToolResult(
            content=f"{_output_text(ended, mark)}[{'; '.join(notes)}]",
            failed=ended.exit_code != 0,
            untrusted=untrusted_output_source(
                asked.command, root=commands.root(call), network=commands.has_network(call)
            ),
            values=shell_folder_value(now) if now != folder else {},
        )
        return with_violations(outcome, call, BASH_TOOL, ran.violations)

    return TypedTool(replace(BASH_SPEC, reach=commands.reach), BashArguments, run=run)


def _output_text(ended: ProcessResult, mark: str) -> str:
    """Return what was written, with an end of line; where no shell came to its end, also why it could not begin."""
    output = decode_output(ended.output, dropped=ended.dropped_bytes)
    if mark.encode() not in ended.errors:
        output += ended.errors[-MAX_STARTUP_ERROR_BYTES:].decode(errors="replace")
    return output if not output or output.endswith("\n") else f"{output}\n"


def _final_folder(ended: ProcessResult, mark: str, *, root: Path) -> WorkingPath | None:
    """Return where the next command begins, if the shell could say where it was at its end.

    One that has left the working folder comes back to it.
    """
    _, said, place = ended.errors.decode(errors="replace").rpartition(mark)
    if not said:
        return None
    try:
        return parse_working_path(str(Path(place[: 2 * MAX_PATH_BYTES]).relative_to(root)))
    except (Invalid, ValueError):
        return WORKING_ROOT
