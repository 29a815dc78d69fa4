"""Ports of processes and sandboxes: run a command within limits, so that it never outlives its worker."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""The `PATH` of a command whose environment has none."""


class LiveInput:
    """A stdin buffer that can be written to while the command runs. The command may or may not read it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._on_change: Callable[[], None] = lambda: None
        self.closed = False

    def __len__(self) -> int:
        """Return the number of unsent bytes."""
        return len(self._buffer)

    def write(self, text: bytes) -> None:
        """Append bytes to the buffer."""
        self._buffer += text
        self._on_change()

    def close(self) -> None:
        """Close the input: the command reads end of file after the buffered bytes."""
        self.closed = True
        self._on_change()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every write and on close."""
        self._on_change = callback

    def peek(self) -> bytes:
        """Return the unsent bytes without removing them."""
        return bytes(self._buffer)

    def take(self, length: int) -> None:
        """Remove the first `length` bytes, which have been sent."""
        del self._buffer[:length]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command to start. It inherits no environment, no open file and no working folder."""

    argv: Sequence[str]
    """The program and its arguments. A name without `/` is looked up in the `PATH` of `environment`."""
    folder: Path
    """The working folder, absolute."""
    environment: Mapping[str, str] = {}
    """The complete environment. Without a `PATH`, programs are searched in `/usr/local/bin:/usr/bin:/bin`."""
    input: bytes | LiveInput = b""
    on_stderr: Callable[[bytes], None] | None = None
    """Called with every chunk of stderr as it arrives, instead of `on_output`. It must not raise."""
    timeout: float
    """Seconds."""
    output_limit: int = 8 * 1024 * 1024
    """Bytes kept of stdout and of stderr each, half from the start and half from the end.

    The bytes in between are counted and dropped.
    """
    max_processes: int | None = None
    """Maximum concurrent processes and threads; with more it is killed, where the system can count them."""
    private_mounts: Sequence[str] = ()
    """Mounts that only it sees, encoded, made before it starts; the sandbox of Linux knows their form."""
    read_only_devices: Sequence[Path] = ()
    """Devices that it may use but not modify, whoever owns them; only with private mounts, and only for root."""
    options: Sequence[str] = ()
    """Words in a file that the program inherits as descriptor 100, so that no list of processes shows them."""
    seccomp_filter: bytes = b""
    """A seccomp program that decides which system calls are allowed; without one all are."""


class ProcessResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: with an exit code, by a signal, or killed for exceeding a limit."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    output: bytes
    errors: bytes
    dropped_bytes: int = 0
    """Bytes of both outputs that were dropped."""
    too_many_processes: bool = False
    """Whether it was killed because it had too many processes."""


class Processes(Protocol):
    """Starts commands, each in a process group of its own."""

    async def run(self, command: Command, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command until it exits. When cancelled, it first kills the whole process group.

        On timeout the group is killed. Processes that the command left behind, in any session, are killed with it. If
        this process dies in any way, everything it started dies at once. `on_output` is called with every chunk of
        either output as it arrives, including chunks that are then dropped; an exception from it ends the command.
        Bytes written to a `LiveInput` reach the command while it runs.

        Raises:
            Invalid: the command can never be started as written.
            Unavailable: it could not be started now, or was interrupted; unless `details.started` is false, it may
                have had an effect.

        """


MIB: Final = 1024 * 1024


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of a command. All except `processes` apply to each of its processes."""

    processes: int = 256
    """Concurrent processes and threads."""
    memory: int = 4096 * MIB
    """Bytes. Address space that is reserved but unused does not count."""
    file_size: int = 1024 * MIB
    """Bytes per file."""
    cpu_seconds: int = 3600
    open_files: int = 4096


class SandboxCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command with its access rules and limits. All paths are absolute."""

    argv: Sequence[str]
    root: Path
    """The folder that it may read and write. Outside of it, it sees at most the system's shared files."""
    folder: Path
    """The working folder: the root, or a folder inside it."""
    readable: Sequence[Path] = ()
    """Further paths that it may read."""
    home: Path | None = None
    """Its home folder, which it may also write; by default in memory, and discarded when it ends."""
    hidden: Sequence[Path] = ()
    """Paths that it may not read, even inside readable ones."""
    read_only: Sequence[Path] = ()
    """Paths that it may not write, even inside the root."""
    inodes: Mapping[Path, tuple[int, int]] = {}
    """Device and inode of the root and of masked paths when they were found. Where another file is by now, the command
    is refused."""
    network: bool = False
    environment: Mapping[str, str] = {}
    """Variables added to the defaults, such as `PATH` and `HOME`. Nothing is inherited."""
    input: bytes | LiveInput = b""
    on_stderr: Callable[[bytes], None] | None = None
    """Called with every chunk of stderr as it arrives, instead of `on_output`. It must not raise."""
    timeout: float
    """Seconds."""
    output_limit: int = 8 * MIB
    """Bytes kept of stdout and of stderr each, half from the start and half from the end."""
    limits: ResourceLimits = ResourceLimits()


class Sandbox(Protocol):
    """Runs commands with restricted access and limited resources."""

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command until it exits, as `Processes.run` does: cancelled or orphaned, no process of it survives.

        Raises:
            FolderChanged: a path of it was moved or replaced since it was found.
            Invalid: the command can never be started as written.
            Unavailable: there is no sandbox here, with the reason and a remedy; or the command was interrupted.

        """
