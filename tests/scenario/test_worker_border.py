"""A worker in a network of its own, with the server's folder and the database hidden, still executes runs.

    worker ──► bridge (in its namespace) ── Unix socket ──► bridge (outside) ──► server ──► PostgreSQL

Both bridges only carry bytes. Nothing else leads out of the namespace.
"""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from holdfast.concurrency import cancel_and_wait
from tests.api.server_process import HOLDFAST, run_server
from tests.scenario.test_remote_workers import check_runs, run_worker, write_agents
from tests.support.postgres import PostgresServer

PORT: Final = 4999
"""In the worker's own network."""
BRIDGE: Final = f"""
import asyncio, sys
async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def serve(reader, writer):
    there = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer), return_exceptions=True)
async def main():
    await asyncio.start_server(serve, "127.0.0.1", {PORT})
    print(flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@asynccontextmanager
async def open_bridge(path: Path, port: int) -> AsyncIterator[None]:
    """Carry bytes between a Unix socket and a port of this machine."""
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        for ends in ((reader, back), (there, writer)):
            tasks.add(asyncio.get_running_loop().create_task(pump(*ends)))

    async with await asyncio.start_unix_server(serve, path) as server:
        try:
            yield
        finally:
            server.close()
            await cancel_and_wait(tasks)


def memory_of(pid: int) -> bytes:
    """Return what a process can write in its memory."""
    parts = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(each, 16) for each in span.split("-"))
                memory.seek(start)
                with suppress(OSError):
                    parts.append(memory.read(end - start))
    return b"".join(parts)


def reaches(border: Sequence[str], address: str) -> bool:
    """Return whether a process behind the border can connect to a socket: a path, or a port of this machine."""
    family = f"AF_INET, ('127.0.0.1', {address})" if address.isdigit() else f"AF_UNIX, {address!r}"
    program = f"import socket, sys; kind, address = socket.{family}; socket.socket(kind).connect(address)"
    return subprocess.run([*border, sys.executable, "-c", program], capture_output=True).returncode == 0


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="it needs bubblewrap")
async def test_a_worker_knows_no_database_and_cannot_reach_it(
    tmp_path: Path, shared_memory: Path, postgres: PostgresServer
) -> None:
    database = await postgres.create_database("behind-the-border")
    (socket_folder,) = parse_qs(urlsplit(database).query)["host"]
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet", "--database", database) as server:
        hidden = (str(server.workspace), socket_folder)
        border = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--unshare-pid", "--die-with-parent"]
        border += [option for folder in hidden for option in ("--tmpfs", folder)]
        for address in (f"{socket_folder}/.s.PGSQL.5432", server.port):
            assert reaches([], address)
            assert not reaches(border, address)
        script = f"{sys.executable} -c '{BRIDGE}' {shared_memory}/bridge | (read _; exec \"$@\")"
        inside = [*border, "sh", "-c", script, "sh"]
        async with (
            open_bridge(shared_memory / "bridge", int(server.port)),
            run_worker(tmp_path / "worker", f"http://127.0.0.1:{PORT}", inside=inside) as process,
        ):
            await check_runs(server, [server.start(agent) for agent in ("planner", "parent")])
            below = psutil.Process(process.pid).children(recursive=True)
            (worker,) = [each for each in below if each.cmdline()[: len(HOLDFAST)] == list(HOLDFAST)]
            known = [*worker.environ().items(), *worker.cmdline(), memory_of(worker.pid)]
            assert f"127.0.0.1:{PORT}".encode() in known[-1], "the memory can be searched"
            for secret in ("behind-the-border", socket_folder):
                assert secret not in str(known[:-1])
                assert secret.encode() not in known[-1]
        assert server.stop()[0] == 0
    await postgres.drop_database("behind-the-border")
