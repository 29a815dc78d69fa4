"""`Processes` through a supervisor: a separate program between this worker and the commands of its tools.

    worker  ── request and three pipes ──────────────────────────────────────────── end of file: kill the command ──►
    monitor ── `here` ── `started`, or `failed STEP ERRNO` ── `ended STATUS` ── end of file: nothing of it is left ──►

If either side dies, the other reads end of file. A monitor sends `crowded` before `ended` if it killed the command
for having too many processes.
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


class SupervisedCommand:
    """One command as its worker sees it. When it is closed, whatever still runs is killed."""

    def __init__(self, command: Command, on_output: Callable[[bytes], None] | None) -> None:
        self._command = command
        self._request = encode_request(command)
        self._on_output = on_output
        self._pending_output: list[bytes] = []
        self._output, self._errors = BoundedOutput(command.output_limit), BoundedOutput(command.output_limit)
        self._reports: list[str] = []
        self._partial_line = ""
        self._closed = True  # nothing is there yet
        self._changed = asyncio.Event()
        self._ends = ExitStack()

    async def start(self, supervision: SupervisorClient, *, within: float) -> bool:
        """Wait until the command runs, for so many seconds at most; say no if there was not even a keeper.

        Raises:
            Invalid: it can never be started.
            Unavailable: it could not be started now.

        """
        self._open()
        supervision.start_monitor(self._pipes.their_control)
        await _wait_at_most(within, self._send_request())
        if (failed := self._report("failed")) is not None:
            raise start_error(self._command, step=failed[0], number=int(failed[1]))
        if self._reports and not self._is_answered():
            raise Unavailable(
                f"`{self._command.argv[0]}` does not start: a disk or a network may hold it or its folder", started=True
            )
        return self._is_answered()

    async def wait_ended(self, *, within: float) -> bool:
        """Wait until the command has ended, for so many seconds at most; say whether it has."""
        await _wait_at_most(within, self._until(self._is_over))
        return self._is_over()

    async def finish(self, *, within: float) -> bool:
        """Have everything killed that is left, and wait until it is; say whether it is."""
        if not self._closed:
            self._pipes.close_remote_ends()
            with suppress(OSError):  # the keeper hangs up itself, at this moment
                self._pipes.control.shutdown(socket.SHUT_WR)
        await _wait_at_most(within, self._until(lambda: self._closed))
        return self._closed

    def mute_output(self) -> None:
        """Tell nobody of the output any more."""
        self._on_output = None

    def result(self, *, timed_out: bool) -> ProcessResult:
        """Return how the command ended.

        Raises:
            Unavailable: nobody knows.

        """
        if (ended := self._report("ended")) is None:
            raise Unavailable(
                f"`{self._command.argv[0]}` was cut off, because what supervised it has died: see what it did, then "
                "run it again",
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
        """Hang up."""
        self._ends.close()

    def _open(self) -> None:
        try:
            self._pipes = self._ends.enter_context(closing(CommandPipes()))
        except OSError as exc:
            raise Unavailable(
                f"`{self._command.argv[0]}` cannot be started: {exc.strerror}; allow more open files, or run fewer "
                "commands at once",
                started=False,
            ) from exc
        self._closed = False
        loop, control = asyncio.get_running_loop(), self._pipes.control.fileno()
        loop.add_reader(control, self._read_control)
        self._ends.callback(loop.remove_reader, control)
        fed = self._command.input
        feed = (
            LivePipeWriter(self._pipes.input, fed) if isinstance(fed, LiveInput) else PipeWriter(self._pipes.input, fed)
        )
        self._ends.enter_context(closing(feed))
        self._readers = [
            self._ends.enter_context(
                closing(PipeReader(self._pipes.output, self._output_sink(self._output, live=True)))
            ),
            self._ends.enter_context(
                closing(
                    PipeReader(self._pipes.errors, self._output_sink(self._errors, live=self._command.stream_stderr))
                )
            ),
        ]

    async def _send_request(self) -> None:
        """Send the length of the request together with the pipes, then the request; wait for an answer."""
        wires = self._pipes
        streams = [end.fileno() for end in (wires.their_input, wires.their_output, wires.their_errors)]
        with suppress(ConnectionError):  # the keeper is gone: what it said before, if anything, says more
            socket.send_fds(wires.control, [len(self._request).to_bytes(4, "big")], streams)
            wires.close_remote_ends()
            await asyncio.get_running_loop().sock_sendall(wires.control, self._request)
        wires.close_remote_ends()
        await self._until(self._is_answered)

    async def _until(self, met: Callable[[], bool]) -> None:
        """Wait for something, and tell of the output meanwhile."""
        while True:
            self._emit_output()
            if met():
                return
            self._changed.clear()
            await self._changed.wait()

    def _emit_output(self) -> None:
        untold, self._pending_output = self._pending_output, []
        for piece in untold:
            if self._on_output is not None:
                self._on_output(piece)

    def _output_sink(self, kept: BoundedOutput, *, live: bool) -> Callable[[bytes], None]:
        """Return what takes the pieces of one output; those of a `live` one are told of."""

        def hear(piece: bytes) -> None:
            kept.add(piece)
            if live:
                self._pending_output.append(piece)
                self._changed.set()

        return hear

    def _read_control(self) -> None:
        """Hear what the keeper says; when it hangs up, whatever the command wrote is in the pipes."""
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
            for tap in self._readers:
                tap.drain()
        self._changed.set()

    def _is_answered(self) -> bool:
        return self._report("started") is not None or self._report("failed") is not None or self._closed

    def _is_over(self) -> bool:
        return self._report("ended") is not None or self._closed

    def _report(self, about: str) -> list[str] | None:
        """Return what the keeper said about this, if it did."""
        return next((words for first, *words in map(str.split, self._reports) if first == about), None)


async def _wait_at_most(seconds: float, waiting: Awaitable[None]) -> None:
    """Wait, but no longer than that."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await waiting
    except TimeoutError:
        if not limit.expired():
            raise  # this one is somebody else's


MAX_CONCURRENT_STARTS: Final = 32
"""Commands that are being started at the same time; any number may run."""
START_TIMEOUT_SECONDS: Final = 30.0
"""Seconds after which a supervisor that has not started a command is taken for dead."""
CANCEL_WAIT_SECONDS: Final = 1.0
"""Seconds that somebody who was cancelled waits for the death of what it ran. It dies in any case."""


class SupervisedProcesses:
    """Runs commands for one event loop. Nothing of them outlives this process."""

    def __init__(self) -> None:
        self._supervisor = SupervisorClient()
        self._starting = asyncio.Semaphore(MAX_CONCURRENT_STARTS)

    async def run(self, command: Command, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        with closing(SupervisedCommand(command, on_output)) as conversation:
            try:
                await self._start(conversation)
                in_time = await conversation.wait_ended(within=command.timeout)
                gone = await conversation.finish(within=SHUTDOWN_TIMEOUT_SECONDS)
            except BaseException:
                conversation.mute_output()
                await conversation.finish(within=CANCEL_WAIT_SECONDS)
                raise
            if not gone:
                raise Unavailable(
                    f"`{command.argv[0]}` was killed but does not die: a disk or a network may hold it", started=True
                )
            return conversation.result(timed_out=not in_time)

    async def close(self) -> None:
        """Kill all that runs, and start nothing any more."""
        await self._supervisor.close()

    async def _start(self, conversation: SupervisedCommand) -> None:
        async with self._starting:
            if not await conversation.start(self._supervisor, within=START_TIMEOUT_SECONDS):
                self._supervisor.kill()
                raise Unavailable("the supervisor of processes hung, and was ended with all it kept", started=True)


@asynccontextmanager
async def open_processes() -> AsyncIterator[SupervisedProcesses]:
    """Run commands while the block runs; what still runs at its end is killed."""
    processes = SupervisedProcesses()
    try:
        yield processes
    finally:
        await processes.close()
