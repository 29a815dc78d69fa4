"""The worker's connection to its supervisor, which is started on first use and again after it died."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from holdfast.domain.errors import Unavailable

SHUTDOWN_TIMEOUT_SECONDS: Final = 10.0
"""Seconds that a supervisor has to end everything and itself."""

_PROGRAM: Final = Path(__file__).with_name("supervisor.py")
# What a Python may need to start. Commands can read the environment of their keeper, so there is no more in it.
_INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class SupervisorClient:
    """At most one supervisor at a time. It holds none of the worker's files; stderr it shares."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start_monitor(self, control: socket.socket) -> None:
        """Have a keeper at the other end of `control`.

        Raises:
            Unavailable: there is no supervisor, and none can be started.

        """
        try:
            socket.send_fds(self._ensure_running(), [b"."], [control.fileno()])
        except OSError as exc:
            raise Unavailable(f"the supervisor of processes cannot be reached: {exc.strerror}", started=False) from exc

    def kill(self) -> None:
        """Kill the supervisor, and with it all that it keeps."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
        self._channel = self._process = None

    async def close(self) -> None:
        """End the supervisor and all that it keeps, and start no other."""
        self._closed = True
        if self._channel is not None and self._process is not None:
            self._channel.close()
            try:
                await asyncio.to_thread(self._process.wait, SHUTDOWN_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._channel = self._process = None

    def _ensure_running(self) -> socket.socket:
        if self._closed:
            raise Unavailable("no process can be started any more: this worker is closing", started=False)
        if self._channel is None or _has_hung_up(self._channel):
            self.kill()
            self._channel = self._start()
        return self._channel

    def _start(self) -> socket.socket:
        if not sys.executable:
            raise Unavailable("no process can be started: `sys.executable` names no Python", started=False)
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(True)
        try:
            with far:
                self._process = _launch(far.fileno())
        except OSError:
            near.close()
            raise
        return near


def _launch(channel: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_PROGRAM), str(channel), str(os.getpid())],
        cwd="/",
        env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[channel],
        start_new_session=True,  # Ctrl-C is for the worker, which then ends its commands in order
    )


def _has_hung_up(channel: socket.socket) -> bool:
    """Say whether the supervisor, which never says anything, has closed its end."""
    try:
        return channel.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
