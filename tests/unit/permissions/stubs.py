"""Programs that do nothing but say that they were run, and a shell that finds no others."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

STUBS: Final = ("alpha", "beta", "gamma", "delta")
REAL: Final = ("bash", "sh", "env", "xargs", "timeout", "nice", "nohup", "stdbuf", "find", "true", "false")
LIMIT: Final = 20.0
"""Seconds after which a command that waits for something is given up: what ran until then counts."""


class Stubs:
    """A folder of programs, and the commands that are run with nothing else."""

    def __init__(self, folder: Path) -> None:
        self._ran = folder / "ran"
        self._programs = folder / "programs"
        self._ground = folder / "ground"
        self._programs.mkdir(parents=True)
        for name in STUBS:
            stub = self._programs / name
            stub.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} >> "{self._ran}"\nprintf "%s\\n" "$1"\n')
            stub.chmod(0o755)
        for name in REAL:
            found = shutil.which(name)
            assert found is not None
            (self._programs / name).symlink_to(found)

    def run(self, command: str) -> frozenset[str]:
        """Run a command as the tool `bash` does, and return the stubs that it ran."""
        self._ran.write_text("")
        shutil.rmtree(self._ground, ignore_errors=True)
        self._ground.mkdir()
        (self._ground / "file").write_text("alpha\n")
        env = {"PATH": str(self._programs), "FUNCNEST": "10"}
        running = subprocess.Popen(
            [shutil.which("bash") or "bash", "--noprofile", "--norc", "-c", command],
            cwd=self._ground,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            running.wait(timeout=LIMIT)
        _kill_group(running.pid)
        running.wait()
        return frozenset(self._ran.read_text().split())


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
