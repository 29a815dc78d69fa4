import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import (
    MAX_PATH_BYTES,
    MAX_PATH_DEPTH,
    MAX_PATH_PART_BYTES,
    WORKING_ROOT,
    WorkingPath,
    child_path,
    is_valid_name,
    parse_working_path,
    split_path,
)

PARTS = st.sampled_from(["a", "b.py", ".", "..", "", " ", "ä", "...", "-", "~"])


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("a", "a"),
        ("./a/", "a"),
        ("a//b", "a/b"),
        ("a/../b", "b"),
        ("a/..", "."),
        (".", "."),
        ("...", "..."),
        ("a b/ü.md", "a b/ü.md"),
        ("~/a", "~/a"),
    ],
)
def test_a_path_has_one_normal_form(written: str, path: str) -> None:
    assert parse_working_path(written) == path


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("//a", "is absolute"),
        ("/proc/self/root", "is absolute"),
        ("..", "is outside your working folder"),
        ("a/../../b", "is outside your working folder"),
        ("a/../../files/b", "is outside your working folder"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        ("a\x7f", "control character"),
        ("\udcff", "not valid Unicode"),
        ("x" * (MAX_PATH_PART_BYTES + 1), "longer than 255 bytes"),
        ("ä" * 128, "longer than 255 bytes"),
        ("/".join(["x" * 200] * 6), f"longer than {MAX_PATH_BYTES} bytes"),
        ("/".join("x" * (MAX_PATH_DEPTH + 1)), "folders deep"),
    ],
)
def test_a_path_outside_the_folder_is_rejected_with_the_reason(written: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as caught:
        parse_working_path(written)
    assert len(caught.value.message) < 400


@given(st.lists(PARTS, min_size=1, max_size=8).map("/".join))
def test_a_parsed_path_equals_the_resolved_one_and_stays_inside(written: str) -> None:
    try:
        path = parse_working_path(written)
    except Invalid:
        depth = lowest = 0
        for part in written.split("/"):
            depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
            lowest = min(lowest, depth)
        assert not written or written.startswith("/") or lowest < 0
    else:
        assert path == posixpath.normpath(written)
        assert parse_working_path(path) == path
        assert path == WORKING_ROOT or not {"", ".", ".."}.intersection(path.split("/"))


@given(st.lists(st.sampled_from(["a", "b", "c d"]), min_size=1, max_size=5))
def test_splitting_and_joining_a_path_are_inverse(parts: list[str]) -> None:
    path = parse_working_path("/".join(parts))
    folder, name = split_path(path)
    assert name == parts[-1]
    assert child_path(folder, name) == path
    assert child_path(WORKING_ROOT, "a") == WorkingPath("a")


def test_some_names_on_disk_are_not_valid_in_a_path() -> None:
    assert is_valid_name("a b")
    assert not any(map(is_valid_name, ("a\nb", "\udcff", "")))
