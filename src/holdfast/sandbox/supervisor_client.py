"""The worker's connection to its supervisor, which is started on first use and restarted after it died."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from holdfast.domain.errors import Unavailable

SHUTDOWN_TIMEOUT_SECONDS: Final = 10.0
"""Seconds a supervisor has to kill everything and exit."""

_PROGRAM: Final = Path(__file__).with_name("supervisor.py")
_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
"""The folder from which the supervisor imports this package."""
# Variables that Python may need to start. Commands can read the environment of their monitor, so no others are passed.
_INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class SupervisorClient:
    """Starts at most one supervisor at a time. It inherits none of the worker's open files except stderr."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start_monitor(self, control: socket.socket) -> None:
        """Ask the supervisor for a monitor that reads `control`.

        Raises:
            Unavailable: no supervisor runs, and none can be started.

        """
        try:
            socket.send_fds(self._ensure_running(), [b"."], [control.fileno()])
        except OSError as exc:
            raise Unavailable(f"the process supervisor cannot be reached: {exc.strerror}", started=False) from exc

    def kill(self) -> None:
        """Kill the supervisor; its monitors then kill their commands."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
        self._channel = self._process = None

    async def close(self) -> None:
        """Stop the supervisor with all its commands, and start no other."""
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
            raise Unavailable("no process can be started: this worker is shutting down", started=False)
        if self._channel is None or _has_hung_up(self._channel):
            self.kill()
            self._channel = self._start()
        return self._channel

    def _start(self) -> socket.socket:
        if not sys.executable:
            raise Unavailable("no process can be started: `sys.executable` is empty", started=False)
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(True)
        try:
            with far:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM), _PACKAGES, str(far.fileno()), str(os.getpid())],
                    cwd="/",
                    env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[far.fileno()],
                    start_new_session=True,  # Ctrl-C must reach only the worker, which then stops its commands
                )
        except OSError:
            near.close()
            raise
        return near


def _has_hung_up(channel: socket.socket) -> bool:
    """Return whether the supervisor, which never sends anything, has closed its end."""
    try:
        return channel.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
