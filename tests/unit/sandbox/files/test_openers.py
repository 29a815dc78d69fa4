"""Both openers keep the same contract."""

import errno
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.sandbox.safe_open import Opener, default_opener, has_openat2, open_by_openat2, open_by_walk

READ = os.O_RDONLY | os.O_NONBLOCK


def text(opener: Opener, root: int, path: str) -> str:
    with open(opener(root, path, READ)) as file:
        return file.read()


def refused(opener: Opener, root: int, path: str, flags: int = READ) -> int:
    with pytest.raises(OSError) as caught:
        os.close(opener(root, path, flags))
    assert caught.value.errno is not None
    return caught.value.errno


def test_a_file_is_opened_at_any_depth(opener: Opener, place: Path, root: int) -> None:
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "c").write_text("here")
    assert text(opener, root, "a/b/c") == "here"


def test_the_folder_itself_is_opened(opener: Opener, place: Path, root: int) -> None:
    handle = opener(root, ".", os.O_RDONLY | os.O_DIRECTORY)
    assert os.path.samestat(os.fstat(handle), place.stat())
    os.close(handle)


def test_a_missing_path_is_not_found(opener: Opener, root: int) -> None:
    assert refused(opener, root, "a") == refused(opener, root, "a/b") == errno.ENOENT


@pytest.mark.parametrize("path", ["../secret", "..", "a/../../secret", "/etc/passwd", "/proc/self/root/etc/passwd"])
def test_a_path_that_leads_outside_is_refused(opener: Opener, place: Path, root: int, path: str) -> None:
    (place / "a").mkdir()
    assert refused(opener, root, path) == errno.EXDEV


@pytest.mark.parametrize(
    "target",
    ["../secret", "inside", "nowhere", "/etc/passwd", "/proc/self/exe", "link", "/proc/self/fd/0"],
)
def test_a_link_is_never_followed_wherever_it_leads(opener: Opener, place: Path, root: int, target: str) -> None:
    (place / "inside").write_text("inside")
    (place / "link").symlink_to(target)
    assert refused(opener, root, "link") == errno.ELOOP


@pytest.mark.parametrize("target", ["../outside", "inside", "/proc/self/cwd", "/proc/self/root", "nowhere"])
def test_a_link_in_a_parent_is_never_followed(opener: Opener, place: Path, root: int, target: str) -> None:
    (place / "inside").mkdir()
    (place / "inside" / "key").write_text("inside")
    (place / "link").symlink_to(target)
    assert refused(opener, root, "link/key") in (errno.ELOOP, errno.ENOTDIR)
    assert refused(opener, root, "link", os.O_RDONLY | os.O_DIRECTORY) in (errno.ELOOP, errno.ENOTDIR)


def test_a_link_is_not_opened_as_itself(opener: Opener, place: Path, root: int) -> None:
    (place / "link").symlink_to("../outside")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    assert refused(opener, root, "link", flags) in (errno.ELOOP, errno.ENOTDIR)


def test_a_file_is_not_a_folder(opener: Opener, place: Path, root: int) -> None:
    (place / "a").write_text("")
    assert refused(opener, root, "a/b") == errno.ENOTDIR


def test_opening_a_pipe_does_not_block(opener: Opener, place: Path, root: int) -> None:
    os.mkfifo(place / "pipe")
    os.close(opener(root, "pipe", READ))


def test_a_handle_follows_its_folder_when_it_is_renamed(opener: Opener, place: Path, root: int, tmp_path: Path) -> None:
    (place / "a").write_text("here")
    place.rename(tmp_path / "elsewhere")
    assert text(opener, root, "a") == "here"


def test_a_handle_is_not_inherited(opener: Opener, place: Path, root: int) -> None:
    (place / "a").write_text("")
    handle = opener(root, "a", READ)
    assert not os.get_inheritable(handle)
    os.close(handle)


def test_a_failure_leaves_no_handle_open(opener: Opener, place: Path, root: int) -> None:
    (place / "a" / "b").mkdir(parents=True)
    refused(opener, root, "a/b/c")
    before = _next_handle(place)
    for _ in range(10):
        refused(opener, root, "a/b/c")
        os.close(opener(root, "a/b", os.O_RDONLY | os.O_DIRECTORY))
    assert _next_handle(place) == before


def test_openat2_is_the_default_where_it_works() -> None:
    assert default_opener() is (open_by_openat2 if has_openat2() else open_by_walk)
    if sys.platform != "linux":
        assert not has_openat2()


def _next_handle(place: Path) -> int:
    """Return the lowest free descriptor number."""
    with closing(open(place / "probe", "w")) as probe:
        return probe.fileno()
