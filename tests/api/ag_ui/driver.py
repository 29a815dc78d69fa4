"""Drives real clients of AG-UI in Node processes: `@ag-ui/client`, and CopilotKit. A warning of one fails the test."""

import asyncio
import fcntl
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from holdfast.domain.content import Json
from holdfast.domain.events import Event, encode_event
from tests.api.server_process import TIMEOUT_SECONDS
from tests.api.site import Site
from tests.architecture.project import ROOT

SOURCE: Final = Path(__file__).parent / "client"
INSTALLED: Final = ROOT / ".venv" / "ag-ui-client"
"""Where the client is installed; git ignores it."""
NPM_OPTIONS: Final = (
    *("--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps", "--loglevel=error"),
    "--omit-lockfile-registry-resolved=true",
)
UNREACHABLE: Final = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ENETUNREACH",
    "ETIMEDOUT",
    "SOCKET_TIMEOUT",
)
"""Codes with which npm reports that the registry cannot be reached."""
MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class Outcome:
    """The events of a run and the state of the client after it."""

    def __init__(self, seen: dict[str, Json]) -> None:
        self.events: list[dict[str, Json]] = seen["events"]
        self.failed: Json = seen["failed"]
        self.messages: list[dict[str, Json]] = seen["messages"]
        self.state: Json = seen["state"]
        self.interrupts: list[dict[str, Json]] = seen["pendingInterrupts"]

    @property
    def types(self) -> list[str]:
        """The types of the events, without custom events and deltas."""
        return [each["type"] for each in self.events if each["type"] != "CUSTOM" and "CONTENT" not in each["type"]]

    @property
    def said(self) -> list[str]:
        """The conversation as the client has it: `user: hello`."""
        return [f"{each['role']}: {each.get('content') or ''}" for each in self.messages]

    def all(self, kind: str) -> list[dict[str, Json]]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]

    def one(self, kind: str) -> dict[str, Json]:
        """Return the only event of a type."""
        (event,) = self.all(kind)
        return event


class Client:
    """One client on one thread."""

    def __init__(self, driver: "Driver", name: str, path: str) -> None:
        self._driver = driver
        self._name = name
        self._path = path
        self._numbers = count(1)

    async def run(self, run_id: str | None = None, *, abort_after: str | None = None, **parameters: Json) -> Outcome:
        """Run the agent; the request must succeed."""
        outcome = await self.attempt(run_id, abort_after=abort_after, **parameters)
        assert outcome.failed is None or abort_after is not None, outcome.failed
        return outcome

    async def attempt(
        self, run_id: str | None = None, *, abort_after: str | None = None, **parameters: Json
    ) -> Outcome:
        """Run the agent; the request may fail."""
        options = parameters if run_id is None else {"runId": run_id, **parameters}
        return Outcome(await self._driver.send("run", name=self._name, parameters=options, abortAfter=abort_after))

    async def say(self, text: Json, run_id: str | None = None, *, message: str | None = None, **more: Any) -> Outcome:
        """Add a user message, and run the agent."""
        name = message or f"{self._name}-{next(self._numbers)}"
        await self.edit(add=[{"id": name, "role": "user", "content": text}])
        return await self.run(run_id, **more)

    async def join(self, run_id: str) -> Outcome:
        """Join a segment."""
        outcome = Outcome(await self._driver.send("join", name=self._name, runId=run_id))
        assert outcome.failed is None, outcome.failed
        return outcome

    def addresses(self, url: str) -> dict[str, Json]:
        """Return the URLs at which the client runs its agent and joins segments."""
        return {"url": url + self._path, "joins": f"{url}/api/runs"}

    async def move(self, url: str) -> None:
        """Connect the client to another server."""
        await self.edit(**self.addresses(url))

    async def edit(self, **changes: Json) -> None:
        """Set the client's `messages` or `state`, or `add` messages."""
        await self._driver.send("edit", name=self._name, **changes)


class NodeProcess:
    """A Node process that executes commands."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._numbers = count(1)
        self._pending: dict[int, asyncio.Future[Json]] = {}

    async def send(self, command: str, **options: Json) -> Json:
        """Send a command to the process, and return its result."""
        number = next(self._numbers)
        result = self._pending[number] = asyncio.get_running_loop().create_future()
        self._in.write(json.dumps({"number": number, "command": command, **options}).encode() + b"\n")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await result

    async def read_results(self) -> None:
        """Deliver the results of commands."""
        async for line in self._out:
            response = json.loads(line)
            waiting = self._pending.pop(response["number"])
            if waiting.done():
                continue
            if response["warnings"]:
                waiting.set_exception(AssertionError(f"the client warns: {response['warnings']}"))
            else:
                waiting.set_result(response["outcome"])


class Driver(NodeProcess):
    """The process of all clients of `@ag-ui/client`."""

    async def client(self, url: str, thread: str, *, agent: str | None = None, **more: Json) -> Client:
        """Create a client of a server, on a thread."""
        name = f"c{next(self._numbers)}"
        path = f"/api/threads/{thread}/runs" if agent is None else f"/api/agents/{agent}/run"
        client = Client(self, name, path)
        await self.send("open", name=name, threadId=thread, **client.addresses(url), **more)
        return client

    async def on(self, site: Site, agent: str = "bot", **more: Json) -> Client:
        """Create a client of a site, on a new thread."""
        return await self.client(site.url, await site.thread(agent_type=agent), **more)

    async def receive(self, events: Iterable[Event]) -> Outcome:
        """Send events to a client as a server would."""
        stream = "".join(f"data: {encode_event(event).decode()}\n\n" for event in events)
        return Outcome(await self.send("hear", stream=stream))


P = TypeVar("P", bound=NodeProcess)


@asynccontextmanager
async def driving(kind: type[P], source: Path = SOURCE, installed: Path = INSTALLED) -> AsyncIterator[P]:
    """Run the process of a client while the block runs."""
    await asyncio.to_thread(install, source, installed)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "node", installed / "drive.mjs", stdin=pipe, stdout=pipe, limit=MAX_LINE_BYTES
    )
    driver = kind(process)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(driver.read_results())
        yield driver
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def need_client() -> None:
    """Skip the test if Node or npm is missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("the real clients of AG-UI need Node 20 and npm")


def install(source: Path = SOURCE, installed: Path = INSTALLED) -> None:
    """Install a client unless this version is installed; a lock serializes processes.

    The test is skipped if npm cannot reach its registry.
    """
    installed.mkdir(exist_ok=True)
    with (installed / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copy(source / "drive.mjs", installed)
        files = [path for path in (source / "package.json", source / "package-lock.json") if path.exists()]
        wanted, stamp = "".join(path.read_text() for path in files), installed / "installed.json"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        for path in files:
            shutil.copy(path, installed)
        command = ["ci"] if len(files) > 1 else ["install", "--no-package-lock"]
        done = subprocess.run(["npm", *command, *NPM_OPTIONS], cwd=installed, capture_output=True, text=True)
        if done.returncode and any(code in done.stderr for code in UNREACHABLE):
            pytest.skip(f"npm cannot reach its registry: {done.stderr.splitlines()[0]}")
        assert done.returncode == 0, done.stderr
        stamp.write_text(wanted)
