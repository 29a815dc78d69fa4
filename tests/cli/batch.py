"""Many command lines in one process, for those that end at once: most of what a command costs is to start Python."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.api.serving import LIMIT

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
    told = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]
    print(json.dumps([code, *told]))
"""


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def run_all(commands: Sequence[Sequence[str]]) -> list[Done]:
    """Run command lines one after the other, and return how each ended."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return [Done(*json.loads(line)) for line in process.stdout.splitlines()]
