"""`holdfast` commands in processes forked from one that has imported them, so that many start cheaply.

    test ──(command, log)──► warm process ──fork──► the command, as `holdfast serve …` would run it
     ▲                            │
     └────────(pid, pidfd)────────┘

A command dies with the warm process, and that one with the test.
"""

import asyncio
import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

import msgspec

_MAX_MESSAGE_BYTES: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1
_PROGRAM: Final = "import sys; from tests.support.warm_commands import serve; serve(int(sys.argv[1]))"
_MODULES: Final = (
    "aiohttp",
    "asyncpg",
    "nats",
    "uvloop",
    "holdfast.bootstrap.server",
    "holdfast.bootstrap.worker",
    "holdfast.bus.nats",
    "holdfast.bus.postgres",
    "holdfast.cli.app",
    "holdfast.cli.serve",
    "holdfast.cli.worker",
    "holdfast.models.scripted",
    "holdfast.rpc.server",
    "holdfast.store.postgres.database",
)


class Order(msgspec.Struct, frozen=True):
    """The arguments of a command and its working folder."""

    arguments: Sequence[str]
    folder: str


class Command:
    """A running command."""

    def __init__(self, pid: int, descriptor: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._descriptor = descriptor

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    async def wait(self) -> None:
        """Wait for its end; one waiter at a time."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Close the descriptor of a command that has ended."""
        os.close(self._descriptor)


class WarmCommands:
    """The warm process.

    async with WarmCommands() as commands:
        server = commands.start("serve", "--workspace", "shop", folder=tmp_path, log=tmp_path / "log")
    """

    def __init__(self) -> None:
        self._channel, self._far_end = socket.socketpair()
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        with self._far_end as far_end:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                [sys.executable, "-c", _PROGRAM, str(far_end.fileno())],
                env={"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                pass_fds=[far_end.fileno()],
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()
        assert self._process is not None
        await asyncio.to_thread(self._process.wait)

    def start(self, *arguments: str, folder: Path, log: Path) -> Command:
        """Start a command, whose output is appended to `log`."""
        with log.open("ab") as output:
            order = msgspec.json.encode(Order(arguments, str(folder)))
            socket.send_fds(self._channel, [order], [output.fileno()])
        data, descriptors, _, _ = socket.recv_fds(self._channel, _MAX_MESSAGE_BYTES, 1)
        return Command(msgspec.json.decode(data, type=int), descriptors[0], log)


def serve(channel_number: int) -> None:
    """Fork a command for each order until the connection closes."""
    for module in _MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    parent = os.getpid()
    with socket.socket(fileno=channel_number) as channel:
        while True:
            data, outputs, _, _ = socket.recv_fds(channel, _MAX_MESSAGE_BYTES, 1)
            if not data:
                return
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            pid = os.fork()
            if pid == 0:
                channel.close()
                _run(msgspec.json.decode(data, type=Order), outputs[0], parent)
            os.close(outputs[0])
            descriptor = os.pidfd_open(pid)  # a child that has ended stays until the next order
            socket.send_fds(channel, [msgspec.json.encode(pid)], [descriptor])
            os.close(descriptor)


def _run(order: Order, output: int, parent: int) -> NoReturn:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(order.folder)
        os.environ["HOME"] = order.folder
        sys.argv = ["holdfast", *order.arguments]
        from holdfast.cli.main import main

        main()
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
