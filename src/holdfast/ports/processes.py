"""Processes that tools start. None outlives the worker that asked for it, however that worker ends."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.ports.live_input import LiveInput


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. It inherits no environment, no open file and no working folder."""

    argv: Sequence[str]
    """The program and its arguments. A name without `/` is looked for in the `PATH` of `environment`."""
    folder: Path
    """Absolute."""
    environment: Mapping[str, str] = {}
    """All of it. Without a `PATH`, that is where a system keeps its programs: `/usr/local/bin:/usr/bin:/bin`."""
    input: bytes | LiveInput = b""
    live_errors: bool = True
    """Whether the second output is told of as it comes, as the first is."""
    timeout: float
    """Seconds."""
    output_limit: int = 8 * 1024 * 1024
    """Bytes of each of the two outputs that are kept, half from its beginning and half from its end.

    What is between them is counted and thrown away.
    """
    most_processes: int | None = None
    """Processes and threads that it may have at a time: with more it is killed, where that can be seen."""
    sealed: Sequence[Path] = ()
    """What it may use and not change, whoever owns it: devices of the machine. Only root may say so."""
    filter: bytes = b""
    """A program of seccomp that decides which system calls it may make; with none it may make all."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: with an exit code, by a signal, or killed because it took too much."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    output: bytes
    errors: bytes
    dropped: int = 0
    """Bytes of both outputs that were thrown away."""
    crowded: bool = False
    """Whether it was killed because it had too many processes."""


class Processes(Protocol):
    """Starts commands, each in a process group of its own."""

    async def run(self, command: Command, *, on_output: Callable[[bytes], None] | None = None) -> Ended:
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
