"""Folders are swapped for links and for each other while commands start: no command sees anything outside or denied.

The swapper is another process of the machine, or the command of a second agent that shares the folder. Without rules a
nested working folder is the path at risk, with rules also each mask.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from holdfast.domain.agent import Permissions
from holdfast.domain.errors import Conflict, Invalid
from holdfast.sandbox.processes import open_processes
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.tool import ToolContext
from tests.support.calls import a_call
from tests.unit.sandbox.confined import PYTHON, real_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no sandbox but on Linux")

SWAPS: Final = 300
MANY_SWAPS: Final = 20_000
MIN_COMMANDS: Final = 30

# In bursts, so that the folder also stays unchanged for as long as a command needs to start, on a slow machine too.
# It counts in a file.
_SWAP: Final = """
import ctypes, os, random, sys, time
os.chdir(sys.argv[1])
swap = ctypes.CDLL(None, use_errno=True).renameat2
count = os.open("count", os.O_CREAT | os.O_WRONLY)
swaps = 0
while True:
    for _ in range(random.randrange(1, 60)):
        for one, other in ((b"sub", b"link"), (b"first", b"second")):
            assert swap(-100, one, -100, other, 2) == 0
            swaps += 1
        time.sleep(random.random() * random.choice((0, 0.0001, 0.001)))
    os.pwrite(count, b"%d" % swaps, 0)
    time.sleep(random.random() * random.choice((0.03, 0.03, 0.03, 0.3)))
"""
_READ: Final = (
    "cat notes .env */notes */.env */*/.env; echo x >written; echo x >sub/written; echo x >link/written; echo ran"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in (
        (".holdfast", "OUTSIDE"),
        ("files/sub", "inside"),
        ("files/first", "inside"),
        ("files/second", "inside"),
    ):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "notes").write_text(f"{text}\n")
        (folder / ".env").write_text("OUTSIDE\n" if text == "OUTSIDE" else "DENIED\n")
    (tmp_path / "files" / "second" / "deep").mkdir()
    (tmp_path / "files" / "second" / "deep" / ".env").write_text("DENIED\n")
    (tmp_path / "files" / "link").symlink_to(tmp_path / ".holdfast")
    return tmp_path


@pytest.mark.parametrize("deny", [[], ["read_file(*.env)", "write_file(sub/notes)"]], ids=["open", "denied"])
@pytest.mark.parametrize("folder", ["files", "files/sub"], ids=["shared", "nested"])
@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("swaps", [SWAPS, pytest.param(MANY_SWAPS, marks=pytest.mark.slow)])
async def test_nothing_outside_or_denied_is_seen_while_folders_are_swapped(
    workspace: Path, swaps: int, agents: int, folder: str, deny: list[str]
) -> None:
    seen: Counter[str] = Counter()
    async with open_processes() as processes:
        sandbox = await real_sandbox(processes, workspace=workspace)
        commands = CommandRunner(sandbox, WorkspaceFolders(workspace), workspace=workspace)

        async def run_until_swapped() -> None:
            while _swaps(workspace) < swaps or seen.total() < MIN_COMMANDS or not seen["ran"]:
                for word in set(await _run(commands, _call(folder, deny))):
                    seen[word] += 1

        async with _swapping(workspace / "files", commands if agents == 2 else None), asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(run_until_swapped())
    assert "OUTSIDE" not in seen, seen
    assert not deny or "DENIED" not in seen, seen
    assert sorted(os.listdir(workspace / ".holdfast")) == [".env", "notes"]
    assert (workspace / ".holdfast" / "notes").read_text() == "OUTSIDE\n"


def _call(folder: str, deny: list[str]) -> ToolContext:
    call = a_call()
    return replace(call, agent=replace(call.agent, working_folder=folder, permissions=Permissions(deny=deny)))


async def _run(commands: CommandRunner, call: ToolContext) -> list[str]:
    """Return the words that a command printed."""
    try:
        result = await commands.run(call, ["/bin/sh", "-c", _READ], timeout_seconds=60)
    except (Conflict, Invalid):
        return ["refused"]
    return result.ended.output.decode().split()


def _swaps(workspace: Path) -> int:
    with suppress(FileNotFoundError, ValueError):
        return int((workspace / "files" / "count").read_text())
    return 0


@asynccontextmanager
async def _swapping(folder: Path, commands: CommandRunner | None) -> AsyncIterator[None]:
    """Swap folders in the block: by another process of the machine, or by the command of an agent."""
    if commands is None:
        swapper = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", _SWAP, str(folder))
        try:
            yield
            assert swapper.returncode is None, "it swapped until the end"
        finally:
            swapper.kill()
            await swapper.wait()
        return
    argv = [PYTHON, "-I", "-S", "-c", _SWAP, str(folder)]
    async with asyncio.TaskGroup() as tasks:
        command = tasks.create_task(commands.run(_call("files", []), argv, timeout_seconds=3600))
        yield
        assert not command.done(), "it swapped until the end"
        command.cancel()
