"""Launching a command: its encoded request, resource limits, environment and start errors."""

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from holdfast.domain.errors import FolderChanged, HoldfastError, Invalid, TooLarge, Unavailable
from holdfast.ports.sandbox import DEFAULT_PATH, Command, ResourceLimits, SandboxCommand

OPTIONS_FD: Final = 100
"""Descriptor of the file with the `options` of a command; `supervisor.py` has the same."""

_START_ERRORS: Final = {
    ("filter", errno.EINVAL): "`{program}` cannot be confined: this kernel lacks `CONFIG_SECCOMP_FILTER`",
    ("folder", errno.ENOENT): "the folder `{folder}` does not exist: create it first",
    ("folder", errno.ENOTDIR): "`{folder}` is not a folder: pass a folder to run in",
    ("folder", errno.EACCES): "the folder `{folder}` is not accessible: change its permissions, or pass another",
    ("program", errno.ENOENT): "the program `{program}`, or the interpreter in its first line, was not found "
    "(searched {searched}): install it, or pass its path",
    ("program", errno.EACCES): "`{program}` is not executable: make it executable, or run it with its interpreter",
    (
        "program",
        errno.ENOEXEC,
    ): "`{program}` is not a program: begin a script with `#!`, or run its interpreter",
}
_CHANGED_ERRNOS: Final = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ESTALE, errno.EXDEV}
"""A path is missing, behind a link, or another file."""
_PERMANENT_ERRNOS: Final = {errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.EPERM, errno.ELIBBAD}


def encode_request(command: Command) -> bytes:
    """Return the start request for `command`; `supervisor.StartRequest` describes its format.

    Raises:
        Invalid: a field of the command is not valid.

    """
    _check(command)
    environment = {"PATH": DEFAULT_PATH, **command.environment}
    variables = (f"{name}={value}" for name, value in environment.items())
    lists = ([*map(str, command.read_only_devices)], command.private_mounts, command.options, command.argv)
    fields = [*chain.from_iterable(lists), str(command.folder), *variables]
    try:
        encoded = [os.fsencode(field) for field in fields]
    except UnicodeEncodeError as exc:
        raise Invalid("an argument, the folder or the environment is not valid text: remove its surrogates") from exc
    if any(b"\0" in field for field in encoded):
        raise Invalid("an argument, the folder or the environment contains a zero byte: pass such bytes as input")
    header = (str(command.max_processes or 0), command.seccomp_filter.hex(), *(str(len(words)) for words in lists))
    return b"\0".join([*map(str.encode, header), *encoded])


def start_error(command: Command, *, step: str, number: int) -> HoldfastError:
    """Return the error for a command that failed to start at `step` with the errno `number`."""
    if step == "mounts" and number in _CHANGED_ERRNOS:
        return FolderChanged(
            "files of the working folder were moved or replaced while the command was being started: try again",
            started=False,
        )
    if step in ("namespace", "mounts"):
        reason = f"the folders of a command cannot be mounted ({os.strerror(number)})"
        return Unavailable(reason, started=False, errno=number)
    message = _START_ERRORS.get((step, number))
    if message is not None:
        searched = "that path" if "/" in command.argv[0] else f"`{command.environment.get('PATH', DEFAULT_PATH)}`"
        return Invalid(message.format(folder=command.folder, program=command.argv[0], searched=searched), started=False)
    if number == errno.E2BIG:
        return TooLarge(
            f"the arguments and environment of `{command.argv[0]}` are too long for the system: pass them as input",
            started=False,
        )
    kind = Invalid if number in _PERMANENT_ERRNOS else Unavailable
    return kind(f"`{command.argv[0]}` could not be started ({step}): {os.strerror(number)}", started=False)


def _check(command: Command) -> None:
    if not command.argv or not command.argv[0]:
        raise Invalid("a command needs a program: put its name first in `argv`", field="argv")
    if not command.folder.is_absolute():
        raise Invalid(f"the folder `{command.folder}` is relative: pass an absolute path", field="folder")
    if not command.timeout > 0:
        raise Invalid("`timeout` must be more than 0 seconds", field="timeout")
    if command.output_limit < 0:
        raise Invalid("`output_limit` must be 0 bytes or more", field="output_limit")
    if any(not name or "=" in name for name in command.environment):
        raise Invalid("a name in `environment` must not be empty or contain `=`", field="environment")


def with_resource_limits(argv: Sequence[str], limits: ResourceLimits, *, processes: int | None = None) -> list[str]:
    """Return the command that runs `argv` within limits.

    The kernel counts `processes` per user, so that limit is only meaningful inside a user namespace.
    """
    program = shutil.which("prlimit", path=DEFAULT_PATH)
    if program is None:
        raise Unavailable("`prlimit`, which limits commands, was not found: install util-linux", started=False)
    values = {
        "data": limits.memory,
        "fsize": limits.file_size,
        "cpu": limits.cpu_seconds,
        "nofile": limits.open_files,
        "core": 0,
    }
    if processes is not None:
        values["nproc"] = processes
    return [program, *(f"--{name}={value}" for name, value in values.items()), "--", *argv]


INHERITED_VARIABLES: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Variables that a command inherits from its worker: language and time zone."""
SANDBOX_HOME: Final = "/tmp"  # a tmpfs of the sandbox, discarded when the command ends

_FIXED_VARIABLES: Final = {
    "PATH": DEFAULT_PATH,
    "HOME": SANDBOX_HOME,
    "TMPDIR": "/tmp",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
}


def command_environment(worker: Mapping[str, str], command: SandboxCommand) -> dict[str, str]:
    """Return the full environment of a command, from the worker's variables and those set for the command."""
    inherited = {name: worker[name] for name in INHERITED_VARIABLES if name in worker}
    home = {} if command.home is None else {"HOME": str(command.home)}
    return {"LANG": "C.UTF-8", **inherited, **_FIXED_VARIABLES, **home, **command.environment}
