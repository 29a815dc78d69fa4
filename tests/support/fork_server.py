"""Victim processes that die by SIGKILL, forked from a warmed process so that a death is cheap.

    test ──(order, pipe)──► fork server ──fork──► victim ──► works, reports what it has done ──► pipe ──► test
                                 └── SIGKILL, if the order says when ──┘

A victim opens what it needs after the fork: neither threads nor connections survive one.
"""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias

import msgspec

SendMessage: TypeAlias = Callable[[Any], None]
VictimFunction: TypeAlias = Callable[[Any, SendMessage], None]
"""The work of a victim: it gets the order's `task` and a function to send JSON messages."""

HANG_TIMEOUT_SECONDS: Final = 60.0
"""Seconds after which a victim without a kill time counts as hung."""

_MAX_ORDER_BYTES: Final = 1 << 16
_SERVE_PROGRAM: Final = "import sys; from tests.support.fork_server import serve; serve(sys.argv[1], int(sys.argv[2]))"


class Order(msgspec.Struct, frozen=True):
    """The task of the next victim, and the seconds after which it is killed."""

    task: Any
    seconds: float


class End(msgspec.Struct, frozen=True):
    """The exit of a victim, and whether it was killed on schedule."""

    status: int
    overdue: bool


class Death(msgspec.Struct, frozen=True):
    """The end of a victim, and its messages until then."""

    messages: list[Any]
    killed: bool
    """Whether it was killed with SIGKILL; otherwise it finished its work."""


class ForkServer:
    """A warmed process that forks one victim at a time.

    async with ForkServer("package.module:work") as server:
        death = await server.send({"do": "this"}, seconds=0.05)
    """

    def __init__(self, work: str) -> None:
        """Prepare a server whose victims do `work`, a `VictimFunction` named as `module:function`."""
        self._work = work
        self._channel, self._far_end = socket.socketpair()
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self._process = self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    async def send(self, task: Any, *, seconds: float | None = None) -> Death:
        """Fork a victim for `task`, kill it after `seconds`, and return when it is dead.

        Raises:
            AssertionError: it failed, or hung.

        """
        order = Order(task, HANG_TIMEOUT_SECONDS if seconds is None else seconds)
        messages, end = await asyncio.to_thread(self._exchange, order)
        if seconds is None and end.overdue:
            raise AssertionError(f"a victim hung after it had sent {messages[-3:]}")
        killed = os.WIFSIGNALED(end.status) and os.WTERMSIG(end.status) == signal.SIGKILL
        if end.status != 0 and not killed:
            raise AssertionError(f"a victim failed ({end.status}): {messages[-1] if messages else 'it sent nothing'}")
        return Death(messages, killed)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._far_end as channel:
            return subprocess.Popen(
                [sys.executable, "-c", _SERVE_PROGRAM, self._work, str(channel.fileno())],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                pass_fds=[channel.fileno()],
            )

    def _exchange(self, order: Order) -> tuple[list[Any], End]:
        reading, writing = os.pipe()
        with open(reading, "rb") as pipe:
            socket.send_fds(self._channel, [msgspec.json.encode(order)], [writing])
            os.close(writing)
            *lines, _ = pipe.read().split(b"\n")  # text after the last line break is an incomplete message
        return [msgspec.json.decode(line) for line in lines], msgspec.json.decode(
            self._channel.recv(_MAX_ORDER_BYTES), type=End
        )


def serve(work: str, channel_number: int) -> None:
    """Fork a victim for each order until the connection closes: the main loop of the fork server."""
    module, _, function = work.partition(":")
    victim: VictimFunction = getattr(import_module(module), function)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    gc.collect()
    gc.freeze()  # a collection in a victim would copy every page
    with socket.socket(fileno=channel_number) as channel:
        while True:
            data, pipes, _, _ = socket.recv_fds(channel, _MAX_ORDER_BYTES, 1)
            if not data:
                return
            order = msgspec.json.decode(data, type=Order)
            pid = os.fork()
            if pid == 0:
                channel.close()
                _run_victim(victim, order.task, pipes[0])
            os.close(pipes[0])
            channel.send(msgspec.json.encode(_await_end(pid, order.seconds)))


def _await_end(pid: int, seconds: float) -> End:
    deadline = time.monotonic() + seconds
    while (remaining := deadline - time.monotonic()) > 0:
        dead, status = os.waitpid(pid, os.WNOHANG)
        if dead:
            return End(status, overdue=False)
        signal.sigtimedwait({signal.SIGCHLD}, remaining)
    os.kill(pid, signal.SIGKILL)
    return End(os.waitpid(pid, 0)[1], overdue=True)


def _run_victim(work: VictimFunction, task: Any, pipe: int) -> NoReturn:
    def send_message(message: Any) -> None:
        os.write(pipe, msgspec.json.encode(message) + b"\n")

    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        work(task, send_message)
        code = 0
    except BaseException:
        send_message(traceback.format_exc())
        raise
    finally:
        os._exit(code)
