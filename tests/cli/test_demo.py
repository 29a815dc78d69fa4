"""`make run`: the demo and the commands that it prints work."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.api.server_process import TIMEOUT_SECONDS
from tests.architecture.project import ROOT
from tests.cli.batch import run_all

FOLLOW: Final = re.compile(r"`holdfast (run follow .+)`")
CURL: Final = re.compile(r"^  (curl .+)$", re.MULTILINE)


@contextmanager
def demo(folder: Path, *, terminal: bool) -> Iterator["subprocess.Popen[str]"]:
    """Run the demo on a copy of its workspace, with or without a terminal."""
    shutil.copytree(ROOT / "examples" / "bakery", folder, ignore=shutil.ignore_patterns(".holdfast"))
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, ROOT / "examples" / "demo.py", "--workspace", folder, "--port", "0"],
        stdin=slave if terminal else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_SECONDS)
        os.close(master)
        os.close(slave)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield the output of the demo without a terminal, and in one, where its server keeps running."""
    folder = tmp_path_factory.mktemp("demo")
    with demo(folder / "a", terminal=False) as machine, demo(folder / "b", terminal=True) as terminal:
        assert terminal.stdout is not None
        shown = ""
        while "Press Ctrl-C to stop it" not in shown:
            line = terminal.stdout.readline()
            assert line, shown
            shown += line
        whole, _ = machine.communicate(timeout=TIMEOUT_SECONDS)
        assert machine.returncode == 0, whole
        yield whole, shown
        terminal.send_signal(signal.SIGTERM)
        rest, _ = terminal.communicate(timeout=TIMEOUT_SECONDS)
        assert (terminal.returncode, "Stopped." in rest) == (0, True)


def test_the_task_survives_a_kill_of_its_server(outputs: tuple[str, str]) -> None:
    for printed in outputs:
        parts = [
            "gets a SIGKILL",
            "reconnected",
            "discarded output of an interrupted model call",
            "Every step settled once",
            "# Orange",
        ]
        assert [part for part in parts if part not in printed] == []
        assert printed.count("agent     Here is your recipe") == 1


def test_the_printed_follow_command_works(outputs: tuple[str, str]) -> None:
    (printed,) = FOLLOW.findall(outputs[1])
    (done,) = run_all([shlex.split(printed)])
    assert (done.code, "agent     Here is your recipe" in done.out) == (0, True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_printed_curl_commands_work(outputs: tuple[str, str]) -> None:
    create, stream, export = (
        subprocess.run(command, shell=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True).stdout
        for command in CURL.findall(outputs[1])
    )
    assert json.loads(create)["taskId"].startswith("task_")
    assert ["RUN_STARTED" in stream, "RUN_FINISHED" in stream] == [True, True]
    assert "No nuts!" in export
