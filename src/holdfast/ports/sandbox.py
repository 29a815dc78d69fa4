"""Ports of processes and sandboxes: run a command, bounded, so that it never outlives its worker."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec


class LiveInput:
    """Takes what is written until whoever runs the command takes that. Whether the command reads it is its business."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._on_change: Callable[[], None] = lambda: None
        self.closed = False

    def __len__(self) -> int:
        """Return how many bytes nobody has taken yet."""
        return len(self._buffer)

    def write(self, text: bytes) -> None:
        """Write more."""
        self._buffer += text
        self._on_change()

    def close(self) -> None:
        """Write no more: the command reads the end of its input after what is there."""
        self.closed = True
        self._on_change()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have somebody told whenever there is something to do."""
        self._on_change = callback

    def peek(self) -> bytes:
        """Return all that nobody has taken yet."""
        return bytes(self._buffer)

    def take(self, length: int) -> None:
        """Take that many bytes away."""
        del self._buffer[:length]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. It inherits no environment, no open file and no working folder."""

    argv: Sequence[str]
    """The program and its arguments. A name without `/` is looked for in the `PATH` of `environment`."""
    folder: Path
    """Absolute."""
    environment: Mapping[str, str] = {}
    """All of it. Without a `PATH`, that is where a system keeps its programs: `/usr/local/bin:/usr/bin:/bin`."""
    input: bytes | LiveInput = b""
    stream_stderr: bool = True
    """Whether the second output is told of as it comes, as the first is."""
    timeout: float
    """Seconds."""
    output_limit: int = 8 * 1024 * 1024
    """Bytes of each of the two outputs that are kept, half from its beginning and half from its end.

    What is between them is counted and thrown away.
    """
    max_processes: int | None = None
    """Processes and threads that it may have at a time: with more it is killed, where that can be seen."""
    read_only_devices: Sequence[Path] = ()
    """What it may use and not change, whoever owns it: devices of the machine. Only root may say so."""
    seccomp_filter: bytes = b""
    """A program of seccomp that decides which system calls it may make; with none it may make all."""


class ProcessResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: with an exit code, by a signal, or killed because it took too much."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    output: bytes
    errors: bytes
    dropped_bytes: int = 0
    """Bytes of both outputs that were thrown away."""
    too_many_processes: bool = False
    """Whether it was killed because it had too many processes."""


class Processes(Protocol):
    """Starts commands, each in a process group of its own."""

    async def run(self, command: Command, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end. Cancelled, it kills the whole group first.

        When the time is up, the group is killed. What the command left behind, in whatever session, is killed with it.
        If this process dies in any way, all that it started dies at once. `on_output` is called with every piece of
        either output as it comes, also with what is then thrown away; what it raises ends the command. With a live
        input, what is written to it reaches the command while it runs.

        Raises:
            Invalid: the command can never be started as it is.
            Unavailable: it could not be started now, or was cut off; unless `details.started` is false, it may have
                done something.

        """


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


class SandboxCommand(msgspec.Struct, frozen=True, kw_only=True):
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
    read_only: Sequence[Path] = ()
    """What it may not write all the same."""
    network: bool = False
    environment: Mapping[str, str] = {}
    """Beside what every command has: `PATH`, `HOME` and the like. Nothing is inherited."""
    input: bytes | LiveInput = b""
    stream_stderr: bool = True
    """Whether the second output is told of as it comes, as the first is."""
    timeout: float
    """Seconds."""
    output_limit: int = 8 * MIB
    """Bytes of each of the two outputs that are kept, half from its beginning and half from its end."""
    limits: ResourceLimits = ResourceLimits()


class Sandbox(Protocol):
    """Runs commands within bounds."""

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end, as `Processes` does: cancelled or orphaned, nothing of it lives on.

        Raises:
            Invalid: the command can never be started as it is.
            Unavailable: there is no sandbox here, and the message says why and what to do; or the command was cut off.

        """
