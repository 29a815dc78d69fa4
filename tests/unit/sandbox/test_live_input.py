"""A command can be talked with while it runs."""

import asyncio
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ports.sandbox import Command, LiveInput, ProcessResult
from holdfast.sandbox.processes import open_processes

ECHO = "import sys\nfor line in sys.stdin:\n    sys.stderr.write('heard ')\n    print(line.upper(), end='', flush=True)"


class Talk:
    """A command that answers each line, and what was heard of it."""

    def __init__(self) -> None:
        self.live = LiveInput()
        self.heard = b""
        self._news = asyncio.Event()

    def hear(self, piece: bytes) -> None:
        self.heard += piece
        self._news.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(60):
            while text not in self.heard:
                self._news.clear()
                await self._news.wait()

    def command(self, script: str = ECHO) -> Command:
        argv = [sys.executable, "-I", "-c", script]
        return Command(argv=argv, folder=Path("/"), input=self.live, stream_stderr=False, timeout=60)


async def test_what_is_written_reaches_the_command_and_its_answers_come_while_it_runs() -> None:
    talk = Talk()
    async with open_processes() as processes, asyncio.TaskGroup() as tasks:
        running: asyncio.Task[ProcessResult] = tasks.create_task(processes.run(talk.command(), on_output=talk.hear))
        for word in (b"one\n", b"two\n"):
            talk.live.write(word)
            await talk.until(word.upper())
        talk.live.close()
        ended = await running
    assert (ended.exit_code, ended.output, ended.errors) == (0, b"ONE\nTWO\n", b"heard heard ")
    assert talk.heard == b"ONE\nTWO\n"  # of the errors nothing is heard before the end


async def test_more_than_a_pipe_holds_is_written_as_it_is_read() -> None:
    talk = Talk()
    talk.live.write(b"x" * 1_000_000 + b"\n")
    async with open_processes() as processes, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(processes.run(talk.command(), on_output=talk.hear))
        await talk.until(b"\n")
        talk.live.close()
        assert len((await running).output) == 1_000_001
    assert len(talk.live) == 0


async def test_a_command_need_not_read_what_it_is_told() -> None:
    talk = Talk()
    talk.live.write(b"x" * 1_000_000)
    async with open_processes() as processes:
        ended = await processes.run(talk.command("print('bye')"), on_output=talk.hear)
    assert (ended.exit_code, ended.output) == (0, b"bye\n")


@given(pieces=st.lists(st.binary(max_size=20)), taken=st.integers(0, 30))
def test_what_was_not_taken_is_still_there(pieces: list[bytes], taken: int) -> None:
    live = LiveInput()
    told: list[int] = []
    live.on_change(lambda: told.append(len(live)))
    for piece in pieces:
        live.write(piece)
    whole = b"".join(pieces)
    live.take(taken)
    assert (live.peek(), len(live)) == (whole[taken:], len(whole[taken:]))
    live.close()
    assert live.closed
    assert len(told) == len(pieces) + 1


@pytest.mark.parametrize("script", ["import os; os._exit(3)", ECHO])
async def test_a_command_that_is_let_go_of_ends(script: str) -> None:
    talk = Talk()
    talk.live.close()
    async with open_processes() as processes:
        assert (await processes.run(talk.command(script))).exit_code in (0, 3)
