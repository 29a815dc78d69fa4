"""Run several short commands in one process: starting Python is most of the cost of a command."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.api.server_process import TIMEOUT_SECONDS

PROGRAM: Final = """
import contextlib, io, json, sys
from holdfast.cli.main import main

for arguments in json.load(sys.stdin):
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    sys.argv[1:] = arguments
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as exc:
            code = exc.code
    outputs = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]
    print(json.dumps([code, *outputs]))
"""


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def run_all(commands: Sequence[Sequence[str]]) -> list[CommandResult]:
    """Run command lines sequentially, and return their results."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    return [CommandResult(*json.loads(line)) for line in process.stdout.splitlines()]
