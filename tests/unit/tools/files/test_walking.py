import os
import shutil
import subprocess
from pathlib import Path
from threading import Event

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.working_path import MAX_PATH_DEPTH, WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.tools.files.walk import MAX_SEARCH_ENTRIES, MAX_SEARCH_SECONDS, FolderWalk, SearchBudget
from tests.unit.tools.files.desk import Desk


def walked(
    workspace: Path, start: str = ".", *, everything: bool = False, budget: SearchBudget | None = None
) -> list[str]:
    with WorkspaceFolders(workspace).open("files") as folder:
        walk = FolderWalk(folder, budget or SearchBudget(Event()), include_ignored=everything)
        return list(walk.files(parse_working_path(start)))


def test_files_come_in_the_order_of_their_names(desk: Desk, tmp_path: Path) -> None:
    for name in ("b/a", "a", "c", "b/b/a"):
        desk.write(name)
    assert walked(tmp_path) == ["a", "b/a", "b/b/a", "c"]
    assert walked(tmp_path, "b") == ["b/a", "b/b/a"]


def test_what_is_ignored_is_left_out_unless_it_is_asked_for(desk: Desk, tmp_path: Path) -> None:
    desk.write(".gitignore", "*.o\nbuild/\n/top\n!keep.o\n")
    desk.write("src/.gitignore", "!b.o\nlocal\n")
    for name in ("a.o", "keep.o", "build/x", "top", "src/top", "src/b.o", "src/c.o", "src/local", "local", ".git/HEAD"):
        desk.write(name)
    assert walked(tmp_path) == [".gitignore", "keep.o", "local", "src/.gitignore", "src/b.o", "src/top"]
    assert "build/x" in walked(tmp_path, everything=True)
    assert ".git/HEAD" in walked(tmp_path, everything=True)
    assert walked(tmp_path, "src") == ["src/.gitignore", "src/b.o", "src/top"]


def test_whoever_names_a_folder_that_is_ignored_looks_into_it(desk: Desk, tmp_path: Path) -> None:
    desk.write(".gitignore", "build/\n")
    desk.write("build/x")
    assert walked(tmp_path, "build") == ["build/x"]


@pytest.mark.parametrize("lines", ["[z-a]\nb\n", "!\n\\\nb\n", "b\n" + "*x*y*z\n" * 2_000, "\udcff\nb\n"])
def test_a_line_that_nobody_understands_does_not_spoil_the_others(desk: Desk, tmp_path: Path, lines: str) -> None:
    (desk.place / ".gitignore").write_bytes(lines.encode(errors="surrogateescape"))
    desk.write("a")
    desk.write("b")
    assert walked(tmp_path) == [".gitignore", "a"]


def test_a_pattern_that_explodes_elsewhere_takes_no_time(desk: Desk, tmp_path: Path) -> None:
    desk.write(".gitignore", "*a" * 40 + "b\n")
    desk.write("a" * 250)
    assert walked(tmp_path) == [".gitignore", "a" * 250]


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "a/", "/a", "!a", "*.b", "!x.b", "a/*", "a/**", "**/c", "!c", "#a", "d/a", "?", "[ac]"]),
        max_size=5,
    ),
    st.lists(st.sampled_from(["a", "!a", "!x.b", "c", "/c"]), max_size=2),
)
def test_what_is_ignored_is_what_git_ignores(tmp_path: Path, top: list[str], below: list[str]) -> None:
    place = tmp_path / "files"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    desk_files = ["a", "c", "x.b", "d/a", "d/c", "d/x.b", "e/a/c", "e/a/x.b"]
    for name in desk_files:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    (place / ".gitignore").write_text("\n".join(top) + "\n")
    (place / "d" / ".gitignore").write_text("\n".join(below) + "\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q"], cwd=place, env=environment, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=place,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert walked(tmp_path) == sorted(listed.stdout.split(), key=lambda path: path.split("/"))


def test_what_cannot_be_looked_at_is_passed_over_and_said(desk: Desk, tmp_path: Path) -> None:
    desk.write("a")
    desk.write(".gitignore", "*.o\n")
    (desk.place / "b").symlink_to(tmp_path)
    (desk.place / "c\nd").write_text("")
    (desk.place / os.fsdecode(b"\xff")).write_text("")
    os.mkfifo(desk.place / "e")
    budget = SearchBudget(Event())
    assert walked(tmp_path, budget=budget) == [".gitignore", "a"]
    assert budget.notes == [
        "1 skipped: symbolic links, which are not followed",
        "2 skipped: names that are not UTF-8 or have control characters in them",
    ]


def test_folders_that_are_too_deep_are_passed_over(desk: Desk, tmp_path: Path) -> None:
    at = desk.place
    for _ in range(MAX_PATH_DEPTH + 3):
        at = at / "d"
        at.mkdir()
        (at / "f").write_text("")
    budget = SearchBudget(Event())
    assert len(walked(tmp_path, budget=budget)) == MAX_PATH_DEPTH - 1
    assert budget.notes == [f"1 skipped: folders more than {MAX_PATH_DEPTH} deep"]


def test_a_search_ends_when_it_has_looked_at_enough(desk: Desk, tmp_path: Path) -> None:
    for name in "abc":
        desk.write(name)
    used = SearchBudget(Event())
    used.spend(entries=MAX_SEARCH_ENTRIES - 3)
    assert walked(tmp_path, budget=used) == ["a", "b"]
    assert used.notes == [
        f"the search ended early: there are more than {MAX_SEARCH_ENTRIES} files and folders: name a smaller folder"
    ]


def test_a_search_ends_when_its_time_is_up_or_nobody_waits(desk: Desk, tmp_path: Path) -> None:
    desk.write("a")
    times = iter([0.0, MAX_SEARCH_SECONDS + 1])
    late = SearchBudget(Event(), monotonic=lambda: next(times))
    assert walked(tmp_path, budget=late) == []
    assert late.notes == [
        f"the search ended early: it took longer than {MAX_SEARCH_SECONDS:g} seconds: name a smaller folder"
    ]
    halt = Event()
    halt.set()
    assert walked(tmp_path, budget=SearchBudget(halt)) == []


def test_where_it_begins_must_be_a_folder(desk: Desk, tmp_path: Path) -> None:
    desk.write("a")
    with pytest.raises(Invalid, match="`a` is not a folder"):
        walked(tmp_path, "a")
    with pytest.raises(NotFound):
        walked(tmp_path, "b")
    assert walked(tmp_path, WORKING_ROOT) == [WorkingPath("a")]
