"""Commands that agents think of, and what they can reach while they run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from holdfast.ports.live_input import LiveInput
from holdfast.ports.processes import Ended

MIB: Final = 1024 * 1024


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may use of the machine. The numbers but `processes` are of each of its processes."""

    processes: int = 256
    """Processes and threads that it may have at a time."""
    memory: int = 4096 * MIB
    """Bytes. Address space that is only reserved, as some runtimes do, does not count."""
    file_size: int = 1024 * MIB
    """Bytes of one file."""
    cpu_seconds: int = 3600
    open_files: int = 4096


class Confined(msgspec.Struct, frozen=True, kw_only=True):
    """A command and its bounds. All paths are absolute."""

    argv: Sequence[str]
    root: Path
    """What it may read and write. Of everything else it sees at most what a system keeps for all."""
    folder: Path
    """Where it begins: the root, or a folder in it."""
    readable: Sequence[Path] = ()
    """What else it may read."""
    hidden: Sequence[Path] = ()
    """What it may not read all the same."""
    kept: Sequence[Path] = ()
    """What it may not write all the same."""
    network: bool = False
    environment: Mapping[str, str] = {}
    """Beside what every command has: `PATH`, `HOME` and the like. Nothing is inherited."""
    input: bytes | LiveInput = b""
    live_errors: bool = True
    """Whether the second output is told of as it comes, as the first is."""
    timeout: float
    """Seconds."""
    output_limit: int = 8 * MIB
    """Bytes of each of the two outputs that are kept, half from its beginning and half from its end."""
    limits: ResourceLimits = ResourceLimits()


class Sandbox(Protocol):
    """Runs commands within bounds."""

    async def run(self, command: Confined, *, on_output: Callable[[bytes], None] | None = None) -> Ended:
        """Run a command to its end, as `Processes` does: cancelled or orphaned, nothing of it lives on.

        Raises:
            Invalid: the command can never be started as it is.
            Unavailable: there is no sandbox here, and the message says why and what to do; or the command was cut off.

        """
