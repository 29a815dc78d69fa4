"""`holdfast serve` in a separate process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from holdfast.domain.content import Json
from holdfast.workspace.folder import Workspace

HOLDFAST: Final = (sys.executable, "-m", "holdfast.cli")
TIMEOUT_SECONDS: Final = 60
"""Seconds after which a test counts as hanging."""


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], announcement: dict[str, str], workspace: Path) -> None:
        self.process = process
        self.workspace = workspace
        self.url = announcement["url"]
        self.port = self.url.rpartition(":")[2]

    def request(
        self, path: str, body: Json = None, *, method: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Json:
        """Send a request, with a JSON body if one is given, and return the body of the response."""
        headers = {**(headers or {}), **({} if body is None else {"Content-Type": "application/json"})}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, headers=headers, method=method)
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)

    def start(self, agent: str, text: str = "go") -> str:
        """Start a run of an agent on a new thread, and return its id."""
        thread = self.request("/api/threads", {"agent_type": agent})["id"]
        run: str = self.request(f"/api/threads/{thread}/runs", {"input": text})["id"]
        return run

    def log(self, run: str) -> list[Json]:
        """Return the events of a run."""
        return [item["data"] for item in self.request(f"/api/runs/{run}/events?limit=200")["items"]]

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self._read_log()

    def stop(self, signal_number: int = signal.SIGTERM) -> tuple[int, str]:
        """Stop the server, and return its exit code and its log."""
        self.process.send_signal(signal_number)
        log = self._read_log()
        return self.process.returncode, log

    def end(self) -> None:
        """Stop the server if it still runs."""
        if self.process.poll() is None:
            self.stop()

    def _read_log(self) -> str:
        """Wait for the end of the process, and return its log; a stall of its event loop fails the test."""
        _, log = self.process.communicate(timeout=TIMEOUT_SECONDS)
        assert "the event loop was busy" not in log, log
        return log


@contextmanager
def run_server(folder: Path, *options: str, max_files: int | None = None) -> Iterator[Server]:
    """Serve a workspace while the block runs; create the workspace if it does not exist."""
    workspace = folder / "workspace"
    if not workspace.exists():
        Workspace.create(workspace)
    command = [*HOLDFAST, "serve", "--workspace", str(workspace), "--port", "0", "--json", *options]
    if max_files is not None:
        command = ["sh", "-c", f'ulimit -n {max_files} && exec "$@"', "sh", *command]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        if not line:
            raise AssertionError(process.communicate(timeout=TIMEOUT_SECONDS)[1])
        server = Server(process, json.loads(line), workspace)
        yield server
        server.end()
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=TIMEOUT_SECONDS)
