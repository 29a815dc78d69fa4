"""Storage checks of `holdfast doctor`."""

from pathlib import Path

import pytest

from holdfast.bootstrap.doctor.finding import Severity
from holdfast.bootstrap.doctor.storage import diagnose_disk, file_system_type, sync_finding

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /mnt/my\\040disk rw shared:2 - nfs4 server:/x rw
31 30 0:26 / /mnt/my\\040disk/fast rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/srv/holdfast", "ext4"),
        ("/mnt/my disk/holdfast", "nfs4"),
        ("/mnt/my disk/fast/x", "tmpfs"),
        ("/mnt/my disk/faster", "nfs4"),
    ],
)
def test_a_folder_has_the_type_of_the_nearest_mount_above_it(folder: str, kind: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_type(Path(folder), mounts=mounts) == kind


def test_an_unreadable_mount_table_gives_no_file_system_type(tmp_path: Path) -> None:
    assert file_system_type(tmp_path, mounts=tmp_path / "missing") == ""


@pytest.mark.parametrize(
    ("seconds", "verdict", "words"),
    [
        (0.000_005, Severity.WARNING, "less than a disk needs"),
        (0.001, Severity.OK, "about 1000 commit batches per second"),
        (0.05, Severity.WARNING, "about 20 commit batches per second"),
    ],
)
def test_a_sync_that_is_too_fast_or_too_slow_is_a_warning(seconds: float, verdict: Severity, words: str) -> None:
    finding = sync_finding(seconds)
    assert (finding.verdict, words in finding.message) == (verdict, True)
    assert (finding.remedy is None) is (verdict is Severity.OK)


def test_the_disk_checks_leave_no_files_behind(tmp_path: Path) -> None:
    assert {finding.about for finding in diagnose_disk(tmp_path)} >= {"disk sync", "disk space"}
    assert list(tmp_path.iterdir()) == []
