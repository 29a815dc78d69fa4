"""Resource limits of a command, set by `prlimit` on the way to it: they hold for all that it starts."""

import shutil
from collections.abc import Sequence

from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import ResourceLimits
from holdfast.sandbox.request import DEFAULT_PATH


def limited(argv: Sequence[str], limits: ResourceLimits, *, processes: int | None = None) -> list[str]:
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
