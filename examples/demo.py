"""Follow a task live while its server is killed and restarted.

    python examples/demo.py

The server is a separate process, `holdfast serve` on the workspace `bakery`. This process is only a client: it creates
a task and follows it. In the middle of the agent's second response, the server gets a SIGKILL. The next server reads
the log: settled steps stay settled, the interrupted response is discarded and requested again. The follower reconnects
and continues after its last event.

In a terminal the server keeps running afterwards, until Ctrl-C.
"""

import argparse
import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final

import msgspec

from holdfast import Client, Run
from holdfast.cli.output import escape_unencodable
from holdfast.cli.runs import EXIT_CODES
from holdfast.cli.terminal_view import TerminalView, stdout_console
from holdfast.cli.websocket import connect_websocket

BAKERY: Final = Path(__file__).parent / "bakery"
TASK: Final = "Please plan a birthday cake for twelve. No nuts!"
KILL_AFTER: Final = "needs no nuts"
"""The server is killed once the agent has written this."""


class Server:
    """`holdfast serve` as a child process, which can be killed and restarted at the same URL."""

    def __init__(self, workspace: Path, port: int) -> None:
        self.workspace = workspace
        self.url = ""
        self._port = port
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the server, and wait until it accepts requests."""
        options = ["--workspace", str(self.workspace), "--port", str(self._port), "--quiet", "--json"]
        command = [sys.executable, "-m", "holdfast.cli", "serve", *options]
        # In its own session, so that Ctrl-C reaches only this process, which then stops the server gracefully.
        self._process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, start_new_session=True)
        assert self._process.stdout is not None
        announcement = await self._process.stdout.readline()
        if not announcement:
            raise SystemExit(await self._process.wait())
        self.url = msgspec.json.decode(announcement)["url"]
        self._port = int(self.url.rpartition(":")[2])

    async def kill(self) -> None:
        """Kill the server, like a crash."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """Stop the server gracefully."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    async def wait(self) -> None:
        """Wait until the server exits."""
        assert self._process is not None
        await self._process.wait()


async def show(workspace: Path, port: int) -> int:
    """Serve, create a task, kill the server once, and show the run; return the exit code."""
    # SIGTERM and SIGHUP end this process like Ctrl-C does, so that the server is stopped too.
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    server = Server(workspace, port)
    try:
        await server.start()
        async with Client(server.url) as client:
            run = await _create_task(client)
            _print_introduction(server, run)
            ended = await _follow(client, run, server)
            await _print_summary(client, run)
        if sys.stdin.isatty():
            print(f"\nThe server is still running at {server.url}. Press Ctrl-C to stop it.", flush=True)
            await server.wait()
        return EXIT_CODES[ended.status]
    finally:
        await server.stop()


async def _create_task(client: Client) -> Run:
    created = msgspec.json.decode(await client.request("POST", "/agents/planner/task", body={"input": TASK}))
    return await client.run(created["taskId"]).get()


def _print_introduction(server: Server, run: Run) -> None:
    print(f"The console: {server.url}/console")
    print(f"Holdfast serves {server.workspace} at {server.url}")
    print("\nA task is running. In another terminal, create another task, stream the events of this one, or export")
    print("its conversation:\n")
    body = '{"input": "A cake for two, please."}'
    print(f"  curl -s {server.url}/agents/planner/task -H 'Content-Type: application/json' -d '{body}'")
    print(f"  curl -sN {server.url}/api/runs/{run.id}/sse")
    print(f"  curl -s {server.url}/api/threads/{run.thread_id}/export")
    print(f"\nThis is `holdfast run follow {run.id} --transport ws --url {server.url}`:\n", flush=True)


async def _follow(client: Client, run: Run, server: Server) -> Run:
    view = TerminalView(stdout_console(), respond_command=f"holdfast run respond {run.id} --url {server.url}")
    view.show_run(run)
    text, restart = "", None
    handle = client.run(run.id)
    async with asyncio.TaskGroup() as tasks:
        async for event in handle.stream(on_connection=view.notify, connect=connect_websocket):
            view.show_event(event.data)
            text += event.fields["delta"] if event.type == "TEXT_MESSAGE_CONTENT" else ""
            if KILL_AFTER in text and restart is None:
                restart = tasks.create_task(_kill_and_restart(server, view))
    return await handle.get()


async def _kill_and_restart(server: Server, view: TerminalView) -> None:
    view.notify("── the server gets a SIGKILL, and another one is started on the same workspace ──")
    await server.kill()
    await server.start()


async def _print_summary(client: Client, run: Run) -> None:
    """Print the steps and artifacts of the run."""
    print("\nEvery step settled once:")
    async for step in client.run(run.id).steps():
        attempt = f", attempt {step.attempt}" if step.attempt > 1 else ""
        print(f"  {step.number:3}  {step.kind:5}  {step.name:22}  {step.state}{attempt}")
    async for listed in client.run(run.id).artifacts():
        artifact = await client.artifacts.get(listed.id)
        print(f"\nThe artifact {artifact.title!r}:\n")
        print("\n".join(f"  {line}" for line in (artifact.content or "").splitlines()))


def _free_port(port: int) -> int:
    """Return `port`, or 0 (any free port) if it is in use."""
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
    parser.add_argument("--port", type=int, default=5050, help="the port, if it is free")
    arguments = parser.parse_args()
    escape_unencodable()
    try:
        sys.exit(asyncio.run(show(arguments.workspace, _free_port(arguments.port))))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\nStopped. The log has all finished steps: the next start continues from there.")
