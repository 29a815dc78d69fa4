"""The `bash` tool: a shell command in the working folder; its current directory is a run value.

`untrusted_output_source` decides from the text of the command whether the output may contain text from outside the
workspace. With network access, only a command that is read with certainty and consists of known programs is trusted.
Of files it sees those that the command names, not what the shell expands (`~`) or what a script reads.
"""

import secrets
import shlex
from collections.abc import Mapping, Sequence
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
from holdfast.tools.commands.command_runner import CommandRunner, exit_note, with_violations
from holdfast.tools.permissions.patterns import normalize_path
from holdfast.tools.permissions.policy import denied_programs
from holdfast.tools.permissions.rules import BASH_TOOL, RULE_SUBJECTS
from holdfast.tools.permissions.shell.parser import parse_script
from holdfast.tools.permissions.shell.script import ShellScript
from holdfast.tools.tool import ToolContext, ToolResult, encode_value
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

SHELL_VALUE: Final = "shell"


class ShellState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the shell between two commands of a run."""

    folder: str = WORKING_ROOT


def shell_folder(values: Mapping[str, Json]) -> WorkingPath:
    """Return the folder in which the next command starts, relative to the working folder."""
    try:
        return parse_working_path(msgspec.convert(values.get(SHELL_VALUE) or {}, ShellState).folder)
    except (Invalid, msgspec.ValidationError):
        return WORKING_ROOT  # not written by us


def shell_folder_value(folder: WorkingPath) -> dict[str, Json]:
    """Return the run value for a shell in `folder`."""
    return {SHELL_VALUE: encode_value(ShellState(folder=folder))}


def arguments_for_rules(tool: str, arguments: dict[str, Json], values: Mapping[str, Json]) -> dict[str, Json]:
    """Return arguments for permission rules, which assume that a command starts in the working folder."""
    argument = RULE_SUBJECTS[BASH_TOOL].argument
    command, folder = arguments.get(argument), shell_folder(values)
    if tool != BASH_TOOL or folder == WORKING_ROOT or not isinstance(command, str):
        return arguments
    return {**arguments, argument: f"cd {shlex.quote(folder)}\n{command}"}


OFFLINE_PROGRAMS: Final = frozenset(
    {"[", "basename", "cat", "cd", "chmod", "cmp", "comm", "cp", "cut", "date", "df", "diff", "dirname", "du", "echo"}
    | {"egrep", "env", "expand", "expr", "false", "fgrep", "find", "fold", "grep", "head", "id", "join", "ln", "ls"}
    | {"md5sum", "mkdir", "mktemp", "mv", "nice", "nl", "nohup", "od", "paste", "printenv", "printf", "pwd", "readlink"}
    | {"realpath", "rev", "rm", "rmdir", "sed", "seq", "sha1sum", "sha256sum", "sha512sum", "sleep", "sort", "split"}
    | {"stat", "stdbuf", "sync", "tac", "tail", "tee", "test", "timeout", "touch", "tr", "true", "truncate", "type"}
    | {"uname", "uniq", "wc", "whoami", "xargs"}
)
"""Programs that read nothing from the network; those that run another program are listed with it."""
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
"""Folders of the operating system, whose files are trusted; a sandbox has its own `/tmp`."""


def untrusted_output_source(
    command: str, *, root: Path, network: bool, trusted_folders: Sequence[str] = ()
) -> str | None:
    """Return the source of untrusted text that the output of a command may contain, or null.

    `trusted_folders` are folders of skills beside the working folder `root`.
    """
    script = parse_script(command)
    if network and (online := _online_program(script)) is not None:
        return taint_source_name("network", online)
    commands = [*(program.words for program in script.programs), *script.possible]
    arguments = [word for words in commands for word in words[1:] if word is not None]
    # Any argument may be a path, and so may the value after the `=` of an option.
    paths = [path for word in arguments for path in (word, word.rpartition("=")[2])]
    paths += [redirection.path for redirection in script.redirections if redirection.path is not None]
    inside = (*SYSTEM_FOLDERS, str(root), *trusted_folders)
    return next((taint_source_name("file", path) for path in paths if _is_outside(path, inside)), None)


def _online_program(script: ShellScript) -> str | None:
    """Return the first program that may read from the network; `bash` if it is not certain what the command runs."""
    for program in script.programs:
        name = (program.words[0] or BASH_TOOL).removeprefix("/usr").removeprefix("/bin/")
        if name not in OFFLINE_PROGRAMS:
            return name.rpartition("/")[2]
    return BASH_TOOL if script.unclear or script.possible else None


def _is_outside(word: str, inside: Sequence[str]) -> bool:
    path = normalize_path(word) if word else "."
    if not path.startswith("/"):
        return path.split("/")[0] == ".."
    return not any(path == folder or path.startswith(f"{folder}/") for folder in inside)


MAX_COMMAND_CHARS: Final = 100_000
DEFAULT_COMMAND_SECONDS: Final = 120
MAX_COMMAND_SECONDS: Final = 3_600
MAX_STARTUP_ERROR_BYTES: Final = 4_000
"""Bytes of the error message of a shell that could not start."""
BASH_MARGIN_SECONDS: Final = 60.0
"""Seconds of a call beyond the timeout of its command, to start it and to kill its processes."""

# Standard output and error are merged in order. The original standard error then receives the final directory, after a
# random mark that a command cannot guess.
_WRAPPER_SCRIPT: Final = """\
exec 3>&2 2>&1
trap 'printf "%s%s" {mark} "$PWD" >&3' EXIT
eval "$1"
"""


class BashArguments(ToolArguments, frozen=True, kw_only=True):
    """Run a shell command in your working folder and read its output.

    A `cd` also applies to your next commands.
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
    """Return the tool, which runs its commands with `commands`."""

    async def run(call: ToolContext, arguments: BashArguments) -> ToolResult:
        folder = shell_folder(call.values)
        if not await commands.has_folder(call, folder):
            # In another folder the command could do harm.
            message = f"`{folder}` is gone, so nothing was run: the shell is back in the working folder"
            return ToolResult(content=message, failed=True, values=shell_folder_value(WORKING_ROOT))
        mark, project = secrets.token_hex(16), await commands.project_environment(call)
        command = await commands.run(
            call,
            ["/bin/bash", "-c", _WRAPPER_SCRIPT.format(mark=mark), "bash", arguments.command],
            folder=folder,
            timeout_seconds=arguments.timeout_seconds,
            masked_programs=denied_programs(call.agent, call.values),
            readable=[*project.readable, *map(Path, call.skill_folders)],
            environment=project.variables,
            show_if=lambda piece: not piece.startswith(mark.encode()),
        )
        ended, root = command.ended, commands.root(call)
        final_folder = _final_folder(ended, mark, root=root) or folder
        note = exit_note(ended, timeout=arguments.timeout_seconds)
        if final_folder != WORKING_ROOT:
            note = f"{note}; the shell is in `{final_folder}`"
        result = ToolResult(
            content=f"{_output_text(ended, mark)}[{note}]",
            failed=ended.exit_code != 0,
            untrusted=untrusted_output_source(
                arguments.command,
                root=root,
                network=commands.has_network(call),
                trusted_folders=call.skill_folders,
            ),
            values=shell_folder_value(final_folder) if final_folder != folder else {},
        )
        return with_violations(result, call, BASH_TOOL, command.violations)

    return TypedTool(replace(BASH_SPEC, reach=commands.reach), BashArguments, run=run)


def _output_text(ended: ProcessResult, mark: str) -> str:
    """Return the output, ending with a newline; if the shell did not reach its end, with its startup error."""
    raw = ended.output
    if ended.dropped_bytes:
        half = len(raw) - len(raw) // 2
        note = f"\n[{ended.dropped_bytes} bytes were too many to keep]\n"
        output = raw[:half].decode(errors="replace") + note + raw[half:].decode(errors="replace")
    else:
        output = raw.decode(errors="replace")
    if mark.encode() not in ended.errors:
        output += ended.errors[-MAX_STARTUP_ERROR_BYTES:].decode(errors="replace")
    return output if not output or output.endswith("\n") else f"{output}\n"


def _final_folder(ended: ProcessResult, mark: str, *, root: Path) -> WorkingPath | None:
    """Return the directory of the shell at its end, if it was reported; outside the working folder, that folder."""
    _, found, path = ended.errors.decode(errors="replace").rpartition(mark)
    if not found:
        return None
    try:
        return parse_working_path(str(Path(path[: 2 * MAX_PATH_BYTES]).relative_to(root)))
    except (Invalid, ValueError):
        return WORKING_ROOT
