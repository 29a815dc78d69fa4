"""A folder is repeatedly swapped for a link that leads outside: every opened file is still inside.

The link leads to a folder that looks the same, with a secret where the file is.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.working_path import WorkingPath
from holdfast.ports.tools import WorkingFolder
from holdfast.sandbox.safe_open import Opener, has_openat2, open_by_openat2, open_by_walk
from holdfast.sandbox.working_folders import WorkspaceFolders

OPENS: Final = 100_000
WRITES: Final = 500
MAX_WRITES: Final = 200_000

# By `RENAME_EXCHANGE`, so that the path always exists.
_SWAP: Final = """
import ctypes, os, sys
os.chdir(sys.argv[1])
swap = ctypes.CDLL(None, use_errno=True).renameat2
print("ready", flush=True)
while swap(-100, b"shelf", -100, b"link", 2) == 0:
    pass
"""


@pytest.fixture(params=["openat2", "walk"])
def opener(request: pytest.FixtureRequest) -> Opener:
    if request.param == "walk":
        return open_by_walk
    if not has_openat2():
        pytest.skip("this kernel has no openat2, or forbids it")
    return open_by_openat2


@pytest.fixture
def workspace(shared_memory: Path) -> Path:
    outside, inside = shared_memory / "outside", shared_memory / "files"
    for folder, text in ((outside, "secret"), (inside / "shelf", "public")):
        folder.mkdir(parents=True)
        (folder / "file").write_text(text)
    (inside / "link").symlink_to(outside)
    return shared_memory


def test_nothing_outside_is_opened_in_a_hundred_thousand_races(workspace: Path, opener: Opener) -> None:
    seen: Counter[str] = Counter()
    root = os.open(workspace / "files", os.O_RDONLY | os.O_DIRECTORY)
    with _swapping(workspace / "files"):
        for _ in range(OPENS):
            seen[_read(opener, root)] += 1
    os.close(root)
    assert seen["public"] and seen["refused"], "a race that nobody ever loses is none"
    assert seen["public"] + seen["refused"] == OPENS


def test_no_write_escapes_in_a_race(workspace: Path, opener: Opener) -> None:
    seen: Counter[str] = Counter()
    with _swapping(workspace / "files"), WorkspaceFolders(workspace, opener=opener).open("files") as folder:
        for number in range(MAX_WRITES):
            seen[_write(folder, f"new-{number}")] += 1
            if number >= WRITES and seen["written"] and seen["refused"]:
                break
    assert os.listdir(workspace / "outside") == ["file"]
    assert (workspace / "outside" / "file").read_text() == "secret"
    assert seen["written"] and seen["refused"], "a race that nobody ever loses is none"


def _read(opener: Opener, root: int) -> str:
    try:
        handle = opener(root, "shelf/file", os.O_RDONLY)
    except OSError:
        return "refused"
    text = os.read(handle, 100).decode()
    os.close(handle)
    return text


def _write(folder: WorkingFolder, name: str) -> str:
    try:
        folder.write(WorkingPath(f"shelf/{name}"), b"new", replacing=None, mark=name, before_rename=lambda: None)
    except (Conflict, Invalid):
        return "refused"
    return "written"


@contextmanager
def _swapping(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-I", "-S", "-c", _SWAP, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield
        assert swapper.poll() is None, "it swapped until the end"
        swapper.kill()
