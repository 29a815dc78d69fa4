"""How a command is launched: its encoded request, resource limits, environment and start errors."""

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.domain.errors import HoldfastError, Invalid, TooLarge, Unavailable
from holdfast.ports.sandbox import Command, ResourceLimits

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for, by us and by the command, if its environment has no `PATH`."""

_START_ERRORS: Final = {
    (
        "filter",
        errno.EINVAL,
    ): "`{program}` cannot be confined: this kernel filters no system calls (`CONFIG_SECCOMP_FILTER`)",
    ("folder", errno.ENOENT): "the folder `{folder}` does not exist: make it first",
    ("folder", errno.ENOTDIR): "`{folder}` is not a folder: name the one to run in",
    ("folder", errno.EACCES): "the folder `{folder}` may not be entered: allow it, or name another",
    ("program", errno.ENOENT): "there is no program `{program}` (looked in {looked}), or not the one that its first "
    "line names: install it, or name its path",
    ("program", errno.EACCES): "`{program}` may not be executed: make it executable, or name the program that reads it",
    ("program", errno.ENOEXEC): "`{program}` is not a program: begin a script with `#!`, or name what reads it",
}
_PERMANENT_ERRNOS: Final = {errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.EPERM, errno.ELIBBAD}


def encode_request(command: Command) -> bytes:
    """Return the request for `command`.

    Raises:
        Invalid: no command can be like that.

    """
    _check(command)
    environment = {"PATH": DEFAULT_PATH, **command.environment}
    settings = (f"{name}={value}" for name, value in environment.items())
    words = [*map(str, command.read_only_devices), *command.argv, str(command.folder), *settings]
    try:
        encoded = [os.fsencode(word) for word in words]
    except UnicodeEncodeError as exc:
        raise Invalid("an argument, the folder or the environment is not valid text: remove its surrogates") from exc
    if any(b"\0" in word for word in encoded):
        raise Invalid("an argument, the folder or the environment contains a zero byte: pass such bytes as input")
    counts = (str(len(command.read_only_devices)), str(len(command.argv)))
    bounds = (str(command.max_processes or 0), command.seccomp_filter.hex(), *counts)
    return b"\0".join([*map(str.encode, bounds), *encoded])


def start_error(command: Command, *, step: str, number: int) -> HoldfastError:
    """Return the error of a command that could not be started: at which step, and with which error number."""
    advice = _START_ERRORS.get((step, number))
    if advice is not None:
        looked = "that place" if "/" in command.argv[0] else f"`{command.environment.get('PATH', DEFAULT_PATH)}`"
        return Invalid(advice.format(folder=command.folder, program=command.argv[0], looked=looked), started=False)
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
        raise Invalid(f"the folder `{command.folder}` is relative to nothing: make it absolute", field="folder")
    if not command.timeout > 0:
        raise Invalid("`timeout` must be more than 0 seconds", field="timeout")
    if command.output_limit < 0:
        raise Invalid("`output_limit` must be 0 bytes or more", field="output_limit")
    if any(not name or "=" in name for name in command.environment):
        raise Invalid("a name in `environment` must not be empty or contain `=`", field="environment")


def with_resource_limits(argv: Sequence[str], limits: ResourceLimits, *, processes: int | None = None) -> list[str]:
    """Return the command that runs `argv` within limits.

    The system counts `processes` of a user, wherever they run: the number means something in a user namespace only.
    """
    program = shutil.which("prlimit", path=DEFAULT_PATH)
    if program is None:
        raise Unavailable("there is no `prlimit` here, which limits commands: install util-linux", started=False)
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
"""What it has of the environment of its worker: how to write words and times."""
SANDBOX_HOME: Final = "/tmp"  # inside, a folder of its own that is gone with it

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


def command_environment(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command with what is `given` to it, where `own` is that of this process."""
    passed = {name: own[name] for name in INHERITED_VARIABLES if name in own}
    return {"LANG": "C.UTF-8", **passed, **_FIXED_VARIABLES, **given}
