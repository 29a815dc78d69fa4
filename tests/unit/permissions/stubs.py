"""Stub programs that record their calls, and a shell that finds no other programs."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

STUBS: Final = ("alpha", "beta", "gamma", "delta")
REAL: Final = ("bash", "sh", "env", "xargs", "timeout", "nice", "nohup", "stdbuf", "find", "true", "false")
COMMAND_TIMEOUT_SECONDS: Final = 20.0
"""Seconds until a command that hangs is killed; the programs that ran until then count."""


class Stubs:
    """Runs commands with a `PATH` of stub programs."""

    def __init__(self, folder: Path) -> None:
        self._ran = folder / "ran"
        self._programs = folder / "programs"
        self._folder = folder / "ground"
        self._programs.mkdir(parents=True)
        for name in STUBS:
            stub = self._programs / name
            stub.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} >> "{self._ran}"\nprintf "%s\\n" "$1"\n')
            stub.chmod(0o755)
        for name in REAL:
            path = shutil.which(name)
            assert path is not None
            (self._programs / name).symlink_to(path)

    def run(self, command: str) -> frozenset[str]:
        """Run a command as the tool `bash` does, and return the stubs that it ran."""
        self._ran.write_text("")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        (self._folder / "file").write_text("alpha\n")
        env = {"PATH": str(self._programs), "FUNCNEST": "10"}
        process = subprocess.Popen(
            [shutil.which("bash") or "bash", "--noprofile", "--norc", "-c", command],
            cwd=self._folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=COMMAND_TIMEOUT_SECONDS)
        _kill_group(process.pid)
        process.wait()
        return frozenset(self._ran.read_text().split())


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
