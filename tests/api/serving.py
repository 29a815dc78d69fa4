"""`holdfast serve` as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from holdfast.domain.content import Json
from holdfast.workspace.folder import Workspace

HOLDFAST: Final = (sys.executable, "-m", "holdfast.cli")
LIMIT: Final = 60
"""Seconds after which something hangs."""


class Server:
    """A server that is up."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, str]) -> None:
        self.process = process
        self.url = told["url"]
        self.port = self.url.rpartition(":")[2]

    def ask(self, path: str, body: Json = None, *, method: str | None = None) -> Json:
        """Ask for something, or send something, and return the answer."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, headers=headers, method=method)
        with urlopen(request, timeout=LIMIT) as answer:
            return json.load(answer)

    def start(self, agent: str, text: str = "go") -> str:
        """Start a run of an agent on a thread of its own, and return its id."""
        thread = self.ask("/api/threads", {"agent_type": agent})["id"]
        run: str = self.ask(f"/api/threads/{thread}/runs", {"input": text})["id"]
        return run

    def log(self, run: str) -> list[Json]:
        """Return the events of a run."""
        return [item["data"] for item in self.ask(f"/api/runs/{run}/events?limit=200")["items"]]

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=LIMIT)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it, and return its exit code and what it wrote to its log."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, log


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """Serve a workspace, made where there is none, while the block runs."""
    workspace = folder / "workspace"
    if not workspace.exists():
        Workspace.create(workspace)
    command = [*HOLDFAST, "serve", "--workspace", str(workspace), "--port", "0", "--json", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        if not line:
            raise AssertionError(process.communicate(timeout=LIMIT)[1])
        yield Server(process, json.loads(line))
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=LIMIT)
