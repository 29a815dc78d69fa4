"""`holdfast`: data on stdout, messages on stderr, and no unneeded imports."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as package
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS
from tests.cli.batch import PROGRAM, run_all

HEAVY = (
    *("litestar", "uvicorn", "uvloop", "httpx2", "websockets", "rich", "pydantic_ai", "sqlite3", "asyncpg"),
    *("numpy", "snowballstemmer", "holdfast.store"),
)


def test_output_is_text_or_json() -> None:
    version, version_json, openapi, openapi_json = run_all(
        [["version"], ["version", "--json"], ["openapi"], ["openapi", "--json"]]
    )
    assert version == (0, f"{package.__version__}\n", "")
    assert json.loads(version_json.out) == {"name": "holdfast", "version": package.__version__}
    assert json.loads(openapi.out) == json.loads(openapi_json.out)
    assert openapi_json.out.count("\n") == 1 < openapi.out.count("\n")


def test_an_unknown_command_is_a_usage_error_and_help_names_the_program() -> None:
    wrong, help_result, bare = run_all([["surf"], ["--help"], []])
    assert (wrong.code, wrong.out, "surf" in wrong.err) == (2, "", True)
    assert (help_result.code, help_result.out.startswith("Usage: holdfast ")) == (0, True)
    assert bare.code == 2


def test_help_shows_what_a_value_means_and_no_type_of_python() -> None:
    commands = ["serve", "init", "doctor", "openapi", "version", "run follow", "run respond", "key create", "key list"]
    printed = run_all([[*command.split(), "--help"] for command in commands])
    assert [done.code for done in printed] == [0] * len(commands)
    types = re.compile(r"<(str|int|float|path|Path|list|bool)|range>")
    assert [done.out for done in printed if types.search(done.out)] == []


# Sends Ctrl-C at the moment in which the commands begin to be imported.
EARLY_INTERRUPT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from holdfast.cli.main import main
assert "typer" not in sys.modules
sys.argv[1:] = ["version"]
main()
"""


def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY_INTERRUPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("command", [["version"], ["openapi", "--json"], ["--help"]], ids=" ".join)
def test_a_full_stdout_is_reported_in_one_line_with_its_own_exit_code(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*HOLDFAST, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS
        )
    assert (done.returncode, done.stderr) == (4, "holdfast: cannot print to stdout: No space left on device\n")


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*HOLDFAST, "openapi"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (4, "")


def test_a_closed_stderr_is_ignored(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*HOLDFAST, "init", str(tmp_path / "new")], stderr=full, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, (tmp_path / "new" / "agents").is_dir()) == (0, True)


def test_heavy_modules_are_imported_only_by_commands_that_need_them() -> None:
    commands = [["version"], ["--help"], ["run", "follow", "--help"], ["serve", "--help"], ["serve", "--nonsense"]]
    program = f"{PROGRAM}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    command_lines = json.dumps(commands)
    done = subprocess.run(
        [sys.executable, "-c", program], input=command_lines, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert done.stdout.splitlines()[-1] == "[]"
