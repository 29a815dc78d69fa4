"""A task at work, followed live; its server is killed in the middle, and started again.

    python examples/demo.py

The server is a process of its own, `holdfast serve` on the workspace `bakery`. This process is only a client: it hands
over a task and follows it. When the agent is in the middle of its second answer, the server gets a SIGKILL. The next
one finds everything in the log: what was settled stays settled, and the answer that was cut off is void and given
again. The follower connects again and goes on after the last event that it has.

In a terminal the server stays up afterwards, until Ctrl-C.
"""

import argparse
import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.cli.client import ServerClient
from holdfast.cli.follow import RunFollower, read_first
from holdfast.cli.output import escape_unencodable
from holdfast.cli.runs import EXIT_CODES
from holdfast.cli.terminal_view import TerminalView, stdout_console
from holdfast.domain.events import TextMessageContent, decode_event
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run

BAKERY: Final = Path(__file__).parent / "bakery"
TASK: Final = "Please plan a birthday cake for twelve. No nuts!"
DEATH: Final = "needs no nuts"
"""Once the agent has said this, its server dies."""
JSON: Final = {"Content-Type": "application/json"}


class Server:
    """`holdfast serve` in a process of its own, which may die and come back at the same address."""

    def __init__(self, workspace: Path, port: int) -> None:
        self.workspace = workspace
        self.url = ""
        self._port = port
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        options = ["--workspace", str(self.workspace), "--port", str(self._port), "--quiet", "--json"]
        command = [sys.executable, "-m", "holdfast.cli", "serve", *options]
        # In a session of its own, so that Ctrl-C reaches only this process, which then ends it in order.
        self._process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, start_new_session=True)
        assert self._process.stdout is not None
        told = await self._process.stdout.readline()
        if not told:
            raise SystemExit(await self._process.wait())
        self.url = msgspec.json.decode(told)["url"]
        self._port = int(self.url.rpartition(":")[2])

    async def kill(self) -> None:
        """Kill it as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """End it in order."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    async def wait(self) -> None:
        """Wait until it ends by itself."""
        assert self._process is not None
        await self._process.wait()


async def show(workspace: Path, port: int) -> int:
    """Serve, hand over a task, kill the server once, and show what happens; return the exit code."""
    _end_in_order_on_signals()
    server = Server(workspace, port)
    try:
        await server.start()
        async with ServerClient(server.url) as remote:
            run = await _begin(remote)
            _introduce(server, run)
            ended = await _follow(remote, run, server)
            await _sum_up(remote, run)
        if sys.stdin.isatty():
            print(f"\nThe server is still there, at {server.url}. Ctrl-C ends it.", flush=True)
            await server.wait()
        return EXIT_CODES[ended.status]
    finally:
        await server.stop()


async def _begin(remote: ServerClient) -> Run:
    answer = await remote.http.post("/agents/planner/task", headers=JSON, content=msgspec.json.encode({"input": TASK}))
    return await read_first(remote, RunId(answer.raise_for_status().json()["taskId"]))


def _introduce(server: Server, run: Run) -> None:
    print(f"Holdfast serves {server.workspace} at {server.url}")
    print(
        "\nIt has a task already. Ask it yourself, in another terminal: for another cake, for the events of this one,"
    )
    print("for what was said so far.\n")
    body = '{"input": "A cake for two, please."}'
    print(f"  curl -s {server.url}/agents/planner/task -H 'Content-Type: application/json' -d '{body}'")
    print(f"  curl -sN {server.url}/api/runs/{run.id}/sse")
    print(f"  curl -s {server.url}/api/threads/{run.thread_id}/export")
    print(f"\nThis is `holdfast run follow {run.id} --transport ws --url {server.url}`:\n", flush=True)


async def _follow(remote: ServerClient, run: Run, server: Server) -> Run:
    screen = TerminalView(stdout_console())
    screen.show_run(run)
    said, restarting = "", None
    following = RunFollower(remote, run, transport="ws", notify=screen.notify)
    async with asyncio.TaskGroup() as tasks:
        async for data in following.events():
            screen.show_event(data)
            event = decode_event(data)
            said += event.delta if isinstance(event, TextMessageContent) else ""
            if DEATH in said and restarting is None:
                restarting = tasks.create_task(_die_and_come_back(server, screen))
    return following.run


async def _die_and_come_back(server: Server, screen: TerminalView) -> None:
    screen.notify("── the server gets a SIGKILL, and another one is started on the same workspace ──")
    await server.kill()
    await server.start()


async def _sum_up(remote: ServerClient, run: Run) -> None:
    """Print what the log says in the end."""
    print("\nEvery step settled once:")
    for step in (await _read(remote, f"/api/runs/{run.id}/steps"))["items"]:
        tries = f", at try {step['attempt']}" if step["attempt"] > 1 else ""
        print(f"  {step['number']:3}  {step['kind']:5}  {step['name']:22}  {step['state']}{tries}")
    for listed in (await _read(remote, f"/api/runs/{run.id}/artifacts"))["items"]:
        artifact = await _read(remote, f"/api/artifacts/{listed['id']}")
        print(f"\nThe artifact {artifact['title']!r}:\n")
        print("\n".join(f"  {line}" for line in artifact["content"].splitlines()))


async def _read(remote: ServerClient, path: str) -> Any:
    return (await remote.http.get(path)).raise_for_status().json()


def _end_in_order_on_signals() -> None:
    """Let what would end this process at once end it as Ctrl-C does: the server must not be left behind."""
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)


def _free(port: int) -> int:
    """Return the port, or 0 if somebody else has it: then any that is free is taken."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, default=BAKERY, help="the workspace to serve")
    parser.add_argument("--port", type=int, default=5050, help="the port to serve it at, if it is free")
    arguments = parser.parse_args()
    escape_unencodable()
    try:
        sys.exit(asyncio.run(show(arguments.workspace, _free(arguments.port))))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\nEnded. What was done is in the log: the next start goes on with what was not.")
