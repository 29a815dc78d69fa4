"""A full or read-only disk: a typed error, no partial write, and recovery afterwards."""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.scenario.small_disk import ON_A_SMALL_DISK, ON_ANY_DISK

ROOT: Final = Path(__file__).resolve().parents[2]
IS_ROOT: Final = os.geteuid() == 0
OWN_MOUNTS: Final = ["unshare", "--mount", *([] if IS_ROOT else ["--user", "--map-root-user"])]


@pytest.mark.parametrize("scene", sorted(ON_ANY_DISK))
def test_a_disk_that_fails(scene: str, tmp_path: Path) -> None:
    _play(scene, tmp_path)


@pytest.mark.parametrize("scene", sorted(set(ON_A_SMALL_DISK) - {"full_postgres"}))
def test_a_disk_that_is_full_or_read_only(scene: str, tmp_path: Path) -> None:
    if not _may_mount():
        pytest.skip("this user may not mount a small disk, not even in a namespace of its own")
    _play(scene, tmp_path, *OWN_MOUNTS)


@pytest.mark.slow
def test_the_disk_of_a_postgres_that_is_full() -> None:
    if not (IS_ROOT and _may_mount()):
        pytest.skip("only root may start a server as another user in a namespace of its own")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:  # where the server's user can reach it
        _play("full_postgres", Path(folder), *OWN_MOUNTS)


def _play(scene: str, folder: Path, *prefix: str) -> None:
    """Play the scene in a separate process, which reports its own failures."""
    process = subprocess.run(
        [*prefix, sys.executable, "-W", "error", "-m", "tests.scenario.small_disk", scene, folder],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr


@cache
def _may_mount() -> bool:
    process = subprocess.run([*OWN_MOUNTS, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True)
    return process.returncode == 0
