"""Stub programs that record their calls, and a real bash that finds no other programs."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

STUBS: Final = ("alpha", "beta", "gamma", "delta")
REAL: Final = (
    *("bash", "sh", "env", "xargs", "timeout", "nice", "nohup", "stdbuf", "find", "true", "false", "sed", "setsid"),
    *("tar", "sort", "split", "git", "mkdir", "ionice"),
)
BATCH_TIMEOUT_SECONDS: Final = 120.0
"""Seconds until a batch that hangs is killed; the programs that ran until then count."""

_DRIVER: Final = r"""
while IFS= read -r -d '' command; do
    # `cat` ends when no process of the command is left.
    ( eval "$command" ) 9>&1 </dev/null >/dev/null 2>&1 | /bin/cat >/dev/null
    printf '\035' >> "$0"
done
"""
_STUB: Final = '#!/bin/sh\nprintf "%s\\037" "${{0##*/}}" "$@" "\036" >> "{ran}"\nprintf "%s\\n" "$1"\n'

Call = tuple[str, ...]
"""The words with which a stub was called, its name first."""


class Stubs:
    """Runs commands with a `PATH` of stub programs."""

    def __init__(self, folder: Path) -> None:
        self._ran = folder / "ran"
        self._programs = folder / "programs"
        self._folder = folder / "ground"
        self._programs.mkdir(parents=True)
        for name in STUBS:
            stub = self._programs / name
            stub.write_text(_STUB.format(ran=self._ran))
            stub.chmod(0o755)
        for name in REAL:
            path = shutil.which(name)
            if path is not None:
                (self._programs / name).symlink_to(path)

    def run(self, commands: Sequence[str]) -> list[list[Call]]:
        """Run commands one after the other as the tool `bash` does, and return the calls of stubs of each."""
        self._ran.write_text("")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        (self._folder / "file").write_text("a\n")
        (self._folder / "names").write_text("alpha\n")
        (self._folder / "dir").mkdir()
        process = subprocess.Popen(
            [shutil.which("bash") or "bash", "--noprofile", "--norc", "-c", _DRIVER, str(self._ran)],
            cwd=self._folder,
            env={"PATH": str(self._programs), "FUNCNEST": "10", "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.communicate(b"".join(f"{each}\0".encode() for each in commands), timeout=BATCH_TIMEOUT_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        *records, rest = self._ran.read_text(errors="replace").split("\035")
        if len(records) < len(commands):
            assert len(commands) > 1, f"it does not end: {commands[0]!r}, which ran {rest!r}"
            return [calls for each in commands for calls in self.run([each])]
        return [_calls(record) for record in records]


def _calls(record: str) -> list[Call]:
    return [tuple(call.removesuffix("\037").split("\037")) for call in record.split("\036\037") if call]
