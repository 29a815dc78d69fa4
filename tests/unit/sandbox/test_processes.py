"""`SupervisedProcesses`: commands run to their end with the requested input, environment and folder."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.ports.sandbox import DEFAULT_PATH, Command, Processes, ProcessResult
from holdfast.sandbox.processes import SupervisedProcesses
from tests.unit.sandbox.commands import command, new_gate, new_mark, python, shell

MANY: Final = 200

# Checked by mypy: the adapter fits the port.
_ADAPTER: type[Processes] = SupervisedProcesses


async def test_a_command_ends_with_its_exit_code_and_both_outputs(processes: SupervisedProcesses) -> None:
    ended = await processes.run(shell("echo said; echo wrong >&2; exit 7"))
    assert ended == ProcessResult(exit_code=7, signal=None, timed_out=False, output=b"said\n", errors=b"wrong\n")


async def test_a_command_that_a_signal_ends_has_no_exit_code(processes: SupervisedProcesses) -> None:
    ended = await processes.run(shell("kill -TERM $$"))
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, signal.SIGTERM, False)


async def test_after_a_timeout_the_command_is_killed_and_its_output_is_kept(
    processes: SupervisedProcesses,
) -> None:
    timeout, output = 0.1, b""
    while not output:  # on a busy machine the shell starts later
        ended = await processes.run(shell(f"echo first; sleep {new_mark()}", timeout=timeout))
        assert (ended.exit_code, ended.signal, ended.timed_out) == (None, signal.SIGKILL, True)
        timeout, output = 4 * timeout, ended.output
    assert output == b"first\n"


async def test_input_goes_in_and_comes_out_byte_for_byte(processes: SupervisedProcesses) -> None:
    text = os.urandom(3_000_000)
    ended = await processes.run(command("cat", input=text))
    assert (ended.exit_code, ended.dropped_bytes) == (0, 0)
    assert ended.output == text


async def test_a_command_need_not_read_its_input(processes: SupervisedProcesses) -> None:
    assert (await processes.run(command("true", input=bytes(1_000_000)))).exit_code == 0


async def test_a_command_without_input_reads_end_of_file(processes: SupervisedProcesses) -> None:
    assert (await processes.run(command("cat"))).output == b""


async def test_an_output_over_the_limit_keeps_its_beginning_and_its_end(processes: SupervisedProcesses) -> None:
    script = "echo begun; head -c 20000000 /dev/zero; echo ended; head -c 100 /dev/zero >&2"
    ended = await processes.run(shell(script, output_limit=1000))
    assert (len(ended.output), len(ended.errors)) == (1000, 100)
    assert ended.output.startswith(b"begun\n\0")
    assert ended.output.endswith(b"\0ended\n")
    assert ended.dropped_bytes == 20_000_012 - 1000


async def test_output_is_passed_on_as_it_arrives_including_dropped_bytes(processes: SupervisedProcesses) -> None:
    pieces: list[bytes] = []
    script = "echo one; read line; echo $line; echo three >&2"
    ended = await processes.run(shell(script, input=b"two\n", output_limit=0), on_output=pieces.append)
    assert sorted(b"".join(pieces).split()) == [b"one", b"three", b"two"]
    assert (ended.output, ended.errors, ended.dropped_bytes) == (b"", b"", 14)


async def test_an_exception_of_the_output_callback_ends_the_command(processes: SupervisedProcesses) -> None:
    def refuse(piece: bytes) -> None:
        raise TimeoutError(piece)

    with pytest.raises(TimeoutError, match="first"):
        await processes.run(shell(f"echo first; sleep {new_mark()}"), on_output=refuse)


async def test_a_command_has_only_the_requested_environment(processes: SupervisedProcesses) -> None:
    environment = {"PATH": os.environ["PATH"], "NAME": "a=b\nc"}
    assert _environment(await processes.run(command("env", "-0", environment=environment))) == environment


async def test_without_a_path_the_default_one_is_used(processes: SupervisedProcesses) -> None:
    assert _environment(await processes.run(command("env", "-0"))) == {"PATH": DEFAULT_PATH}


async def test_a_command_runs_in_its_folder(processes: SupervisedProcesses, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\npwd -P\n")
    program.chmod(0o755)
    ended = await processes.run(command("./program", folder=tmp_path))
    assert ended.output.decode() == f"{tmp_path}\n"


async def test_a_command_leads_a_session_of_its_own(processes: SupervisedProcesses) -> None:
    ended = await processes.run(python("import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))"))
    assert ended.output == b"True\n"


async def test_a_command_has_no_other_open_file(processes: SupervisedProcesses) -> None:
    ended = await processes.run(python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"))
    assert ended.output == b"[0, 1, 2, 3]\n"  # the last is the listing itself


async def test_a_command_blocks_and_ignores_no_signal(processes: SupervisedProcesses) -> None:
    ended = await processes.run(command("grep", "-E", "^Sig(Blk|Ign|Pnd)", "/proc/self/status"))
    masks = [int(line.split()[1], 16) for line in ended.output.splitlines()]
    # The C library keeps signals 32 and 33 for itself: what `make` starts ignores them, and nobody can change that.
    assert [mask & ~(0b11 << 31) for mask in masks] == [0, 0, 0]


async def test_a_command_gains_no_rights(processes: SupervisedProcesses) -> None:
    ended = await processes.run(command("grep", "NoNewPrivs", "/proc/self/status"))
    assert ended.output.split() == [b"NoNewPrivs:", b"1"]


async def test_a_missing_program_is_invalid(processes: SupervisedProcesses) -> None:
    await _refused(processes, command("no-such-program"), "`no-such-program`.* was not found .searched `/usr/local")
    await _refused(processes, command("/no/such"), "the program `/no/such`.* was not found .searched that path")


async def test_a_program_that_may_not_be_executed_is_invalid(processes: SupervisedProcesses, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("data")
    await _refused(processes, command("./data", folder=tmp_path), "make it executable")
    await _refused(processes, command("data", environment={"PATH": str(tmp_path)}), "make it executable")


async def test_a_file_that_is_not_a_program_is_invalid(processes: SupervisedProcesses, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("data")
    (tmp_path / "data").chmod(0o755)
    await _refused(processes, command("./data", folder=tmp_path), "begin a script with `#!`")


async def test_a_missing_folder_is_invalid(processes: SupervisedProcesses, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await _refused(processes, command("true", folder=tmp_path / "nowhere"), "does not exist: create it first")
    await _refused(processes, command("true", folder=tmp_path / "file"), "is not a folder")


async def test_arguments_over_the_limit_of_the_system_are_too_large(processes: SupervisedProcesses) -> None:
    with pytest.raises(TooLarge, match="pass them as input"):
        await processes.run(command("true", "x" * 5_000_000))


async def test_arguments_may_be_as_long_as_the_system_allows(processes: SupervisedProcesses) -> None:
    arguments = ["x" * 100_000] * 10
    ended = await processes.run(command("sh", "-c", 'printf %s "$@" | wc -c', "sh", *arguments))
    assert ended.output.split() == [b"1000000"]


async def test_hundreds_of_commands_run_at_the_same_time(processes: SupervisedProcesses, tmp_path: Path) -> None:
    waiting = asyncio.Semaphore(0)
    with new_gate(tmp_path) as gate:
        async with asyncio.TaskGroup() as group:
            commands = [shell(f"echo {number}; read line < gate", folder=tmp_path) for number in range(MANY)]
            runs = [group.create_task(processes.run(each, on_output=lambda _: waiting.release())) for each in commands]
            for _ in runs:
                await waiting.acquire()
            gate.write(b"\n" * MANY)  # all commands wait here, and each reads one line
    assert [int(run.result().output) for run in runs] == list(range(MANY))


def _environment(ended: ProcessResult) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in ended.output.decode().split("\0") if entry)


async def _refused(processes: SupervisedProcesses, refused: Command, message: str) -> None:
    with pytest.raises(Invalid, match=message) as error:
        await processes.run(refused)
    assert error.value.details == {"started": False}
