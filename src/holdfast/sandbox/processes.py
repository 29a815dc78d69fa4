"""`Processes` through a supervisor, a separate program between this worker and its tool commands.

    worker  ── request and three pipes ────────────────────────────────────────── end of file: kill the command ──►
    monitor ── `here` ── `started`, or `failed STEP ERRNO` ── `ended STATUS` ── end of file: no process is left ──►

If either side dies, the other reads end of file. A monitor sends `crowded` before `ended` if it killed the command
for exceeding its process limit.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import Command, LiveInput, ProcessResult
from holdfast.sandbox.launch import encode_request, start_error
from holdfast.sandbox.pipes import BoundedOutput, CommandPipes, LivePipeWriter, PipeReader, PipeWriter
from holdfast.sandbox.supervisor_client import SHUTDOWN_TIMEOUT_SECONDS, SupervisorClient

MAX_CONCURRENT_STARTS: Final = 32
"""Commands starting at the same time; the number of running ones is not limited."""
START_TIMEOUT_SECONDS: Final = 30.0
"""Seconds after which a supervisor that has not started a command counts as dead."""
CANCEL_WAIT_SECONDS: Final = 1.0
"""Seconds that a cancelled caller waits for its command to die. The command dies in any case."""


class SupervisedCommand:
    """The worker's side of one command. Closing it kills the command and its descendants."""

    def __init__(self, command: Command, on_output: Callable[[bytes], None] | None) -> None:
        self._command = command
        self._request = encode_request(command)
        self._on_output = on_output
        self._pending_output: list[bytes] = []
        self._output, self._errors = BoundedOutput(command.output_limit), BoundedOutput(command.output_limit)
        self._reports: list[str] = []
        self._partial_line = ""
        self._closed = True  # until `start` opens the pipes
        self._changed = asyncio.Event()
        self._resources = ExitStack()

    async def start(self, supervisor: SupervisorClient, *, seconds: float) -> bool:
        """Wait up to `seconds` until the command has started; return false if no monitor answered.

        Raises:
            Invalid: it can never be started.
            Unavailable: it could not be started now.

        """
        self._open()
        supervisor.start_monitor(self._pipes.remote_control)
        await _wait_at_most(seconds, self._send_request())
        if (failure := self._report("failed")) is not None:
            raise start_error(self._command, step=failure[0], number=int(failure[1]))
        if self._reports and not self._is_answered():
            raise Unavailable(
                f"`{self._command.argv[0]}` does not start: its disk or network may be blocked", started=True
            )
        return self._is_answered()

    async def wait_ended(self, *, seconds: float) -> bool:
        """Wait up to `seconds` until the command has ended; return whether it has."""
        await _wait_at_most(seconds, self._wait_until(self._is_over))
        return self._is_over()

    async def finish(self, *, seconds: float) -> bool:
        """Kill the remaining processes and wait up to `seconds` for that; return whether all have ended."""
        if not self._closed:
            self._pipes.close_remote_ends()
            with suppress(OSError):  # the monitor may disconnect at this moment
                self._pipes.control.shutdown(socket.SHUT_WR)
        await _wait_at_most(seconds, self._wait_until(lambda: self._closed))
        return self._closed

    def mute_output(self) -> None:
        """Stop calling `on_output`."""
        self._on_output = None

    def result(self, *, timed_out: bool) -> ProcessResult:
        """Return how the command ended.

        Raises:
            Unavailable: the monitor died, so the result is unknown.

        """
        if (ended := self._report("ended")) is None:
            raise Unavailable(
                f"`{self._command.argv[0]}` was killed, because its supervisor died: check its effects, then retry",
                started=True,
            )
        code = os.waitstatus_to_exitcode(int(ended[0]))
        return ProcessResult(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            timed_out=timed_out,
            output=self._output.bytes(),
            errors=self._errors.bytes(),
            dropped_bytes=self._output.dropped + self._errors.dropped,
            too_many_processes=self._report("crowded") is not None,
        )

    def close(self) -> None:
        """Close the connection and the pipes."""
        self._resources.close()

    def _open(self) -> None:
        try:
            self._pipes = self._resources.enter_context(closing(CommandPipes()))
        except OSError as exc:
            raise Unavailable(
                f"`{self._command.argv[0]}` cannot be started: {exc.strerror}; raise the limit of open files, or run "
                "fewer commands at once",
                started=False,
            ) from exc
        self._closed = False
        loop, control = asyncio.get_running_loop(), self._pipes.control.fileno()
        loop.add_reader(control, self._read_control)
        self._resources.callback(loop.remove_reader, control)
        input, file = self._command.input, self._pipes.input
        writer = LivePipeWriter(file, input) if isinstance(input, LiveInput) else PipeWriter(file, input)
        self._resources.enter_context(closing(writer))
        self._readers = [
            PipeReader(self._pipes.output, self._output_sink(self._output, self._queue_output)),
            PipeReader(
                self._pipes.errors, self._output_sink(self._errors, self._command.on_stderr or self._queue_output)
            ),
        ]
        for reader in self._readers:
            self._resources.enter_context(closing(reader))

    async def _send_request(self) -> None:
        """Send the length of the request together with the pipes, then the request; wait for the response."""
        pipes = self._pipes
        streams = [end.fileno() for end in (pipes.remote_input, pipes.remote_output, pipes.remote_errors)]
        with suppress(ConnectionError):  # the monitor has ended: its reports, if any, say why
            socket.send_fds(pipes.control, [len(self._request).to_bytes(4, "big")], streams)
            pipes.close_remote_ends()
            await asyncio.get_running_loop().sock_sendall(pipes.control, self._request)
        pipes.close_remote_ends()
        await self._wait_until(self._is_answered)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for `condition`, passing new output to `on_output` meanwhile."""
        while True:
            pieces, self._pending_output = self._pending_output, []
            for piece in pieces:
                if self._on_output is not None:
                    self._on_output(piece)
            if condition():
                return
            self._changed.clear()
            await self._changed.wait()

    def _output_sink(self, output: BoundedOutput, live: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Return a callback that keeps pieces in `output` and passes them to `live`."""

        def on_data(piece: bytes) -> None:
            output.add(piece)
            live(piece)

        return on_data

    def _queue_output(self, piece: bytes) -> None:
        """Queue a piece for `on_output`."""
        self._pending_output.append(piece)
        self._changed.set()

    def _read_control(self) -> None:
        """Read reports of the monitor; at end of file, drain the pipes: all output is in them by then."""
        try:
            text = self._pipes.control.recv(4096)
        except ConnectionResetError:
            text = b""
        if text:
            *lines, self._partial_line = (self._partial_line + text.decode()).split("\n")
            self._reports += lines
        else:
            asyncio.get_running_loop().remove_reader(self._pipes.control.fileno())
            self._closed = True
            for reader in self._readers:
                reader.drain()
        self._changed.set()

    def _is_answered(self) -> bool:
        return self._report("started") is not None or self._report("failed") is not None or self._closed

    def _is_over(self) -> bool:
        return self._report("ended") is not None or self._closed

    def _report(self, kind: str) -> list[str] | None:
        """Return the arguments of the monitor's report of that kind, if it sent one."""
        return next((arguments for first, *arguments in map(str.split, self._reports) if first == kind), None)


async def _wait_at_most(seconds: float, awaitable: Awaitable[None]) -> None:
    """Await `awaitable`, but no longer than `seconds`."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await awaitable
    except TimeoutError:
        if not limit.expired():
            raise  # raised by `awaitable` itself


class SupervisedProcesses:
    """Runs commands for one event loop. No command outlives this process."""

    def __init__(self) -> None:
        self._supervisor = SupervisorClient()
        self._starting = asyncio.Semaphore(MAX_CONCURRENT_STARTS)

    async def run(self, command: Command, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        with closing(SupervisedCommand(command, on_output)) as supervised:
            try:
                async with self._starting:
                    if not await supervised.start(self._supervisor, seconds=START_TIMEOUT_SECONDS):
                        self._supervisor.kill()
                        raise Unavailable("the process supervisor hung: it was killed with all commands", started=True)
                in_time = await supervised.wait_ended(seconds=command.timeout)
                all_ended = await supervised.finish(seconds=SHUTDOWN_TIMEOUT_SECONDS)
            except BaseException:
                supervised.mute_output()
                await supervised.finish(seconds=CANCEL_WAIT_SECONDS)
                raise
            if not all_ended:
                raise Unavailable(
                    f"`{command.argv[0]}` was killed but does not die: its disk or network may be blocked", started=True
                )
            return supervised.result(timed_out=not in_time)

    async def close(self) -> None:
        """Kill all running commands, and start no more."""
        await self._supervisor.close()


@asynccontextmanager
async def open_processes() -> AsyncIterator[SupervisedProcesses]:
    """Run commands within the block; kill the remaining ones at its end."""
    processes = SupervisedProcesses()
    try:
        yield processes
    finally:
        await processes.close()
