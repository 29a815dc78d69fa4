"""Live input: a running command receives what is written to it."""

import asyncio
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.ports.sandbox import Command, LiveInput, ProcessResult
from holdfast.sandbox.processes import open_processes

ECHO = "import sys\nfor line in sys.stdin:\n    sys.stderr.write('read ')\n    print(line.upper(), end='', flush=True)"


class Dialog:
    """A command that answers each line, and its output so far."""

    def __init__(self) -> None:
        self.live = LiveInput()
        self.received = b""
        self._news = asyncio.Event()

    def on_output(self, piece: bytes) -> None:
        self.received += piece
        self._news.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(60):
            while text not in self.received:
                self._news.clear()
                await self._news.wait()

    def command(self, script: str = ECHO) -> Command:
        argv = [sys.executable, "-I", "-c", script]
        return Command(argv=argv, folder=Path("/"), input=self.live, on_stderr=lambda _: None, timeout=60)


async def test_input_reaches_a_running_command_and_its_output_arrives_meanwhile() -> None:
    dialog = Dialog()
    async with open_processes() as processes, asyncio.TaskGroup() as tasks:
        running: asyncio.Task[ProcessResult] = tasks.create_task(
            processes.run(dialog.command(), on_output=dialog.on_output)
        )
        for word in (b"one\n", b"two\n"):
            dialog.live.write(word)
            await dialog.until(word.upper())
        dialog.live.close()
        ended = await running
    assert (ended.exit_code, ended.output, ended.errors) == (0, b"ONE\nTWO\n", b"read read ")
    assert dialog.received == b"ONE\nTWO\n"  # stderr is not streamed


async def test_stderr_has_a_callback_of_its_own_that_gets_it_while_the_command_runs() -> None:
    dialog, errors = Dialog(), Dialog()
    command = replace(dialog.command(ECHO.replace("'read '", "'read\\n'")), on_stderr=errors.on_output)
    async with open_processes() as processes, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(processes.run(command, on_output=dialog.on_output))
        dialog.live.write(b"one\n")
        await errors.until(b"read\n")
        assert not running.done()
        dialog.live.close()
        ended = await running
    assert (dialog.received, errors.received, ended.errors) == (b"ONE\n", b"read\n", b"read\n")


async def test_input_larger_than_a_pipe_is_written_as_it_is_read() -> None:
    dialog = Dialog()
    dialog.live.write(b"x" * 1_000_000 + b"\n")
    async with open_processes() as processes, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(processes.run(dialog.command(), on_output=dialog.on_output))
        await dialog.until(b"\n")
        dialog.live.close()
        assert len((await running).output) == 1_000_001
    assert len(dialog.live) == 0


async def test_a_command_need_not_read_its_live_input() -> None:
    dialog = Dialog()
    dialog.live.write(b"x" * 1_000_000)
    async with open_processes() as processes:
        ended = await processes.run(dialog.command("print('bye')"), on_output=dialog.on_output)
    assert (ended.exit_code, ended.output) == (0, b"bye\n")


@given(pieces=st.lists(st.binary(max_size=20)), taken=st.integers(0, 30))
def test_bytes_that_were_not_taken_remain(pieces: list[bytes], taken: int) -> None:
    live = LiveInput()
    changes: list[int] = []
    live.on_change(lambda: changes.append(len(live)))
    for piece in pieces:
        live.write(piece)
    whole = b"".join(pieces)
    live.take(taken)
    assert (live.peek(), len(live)) == (whole[taken:], len(whole[taken:]))
    live.close()
    assert live.closed
    assert len(changes) == len(pieces) + 1


@pytest.mark.parametrize("script", ["import os; os._exit(3)", ECHO])
async def test_a_command_ends_when_its_input_is_closed(script: str) -> None:
    dialog = Dialog()
    dialog.live.close()
    async with open_processes() as processes:
        assert (await processes.run(dialog.command(script))).exit_code in (0, 3)
