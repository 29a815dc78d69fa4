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
from tests.unit.tools.files.file_tool_runner import FileToolRunner


def walked(
    workspace: Path, start: str = ".", *, everything: bool = False, budget: SearchBudget | None = None
) -> list[str]:
    with WorkspaceFolders(workspace).open("files") as folder:
        walk = FolderWalk(folder, budget or SearchBudget(Event()), include_ignored=everything)
        return list(walk.files(parse_working_path(start)))


def test_files_come_in_order_of_name(runner: FileToolRunner, tmp_path: Path) -> None:
    for name in ("b/a", "a", "c", "b/b/a"):
        runner.write(name)
    assert walked(tmp_path) == ["a", "b/a", "b/b/a", "c"]
    assert walked(tmp_path, "b") == ["b/a", "b/b/a"]


def test_ignored_files_are_left_out_unless_included(runner: FileToolRunner, tmp_path: Path) -> None:
    runner.write(".gitignore", "*.o\nbuild/\n/top\n!keep.o\n")
    runner.write("src/.gitignore", "!b.o\nlocal\n")
    for name in ("a.o", "keep.o", "build/x", "top", "src/top", "src/b.o", "src/c.o", "src/local", "local", ".git/HEAD"):
        runner.write(name)
    assert walked(tmp_path) == [".gitignore", "keep.o", "local", "src/.gitignore", "src/b.o", "src/top"]
    assert "build/x" in walked(tmp_path, everything=True)
    assert ".git/HEAD" in walked(tmp_path, everything=True)
    assert walked(tmp_path, "src") == ["src/.gitignore", "src/b.o", "src/top"]


def test_an_ignored_folder_can_be_named_explicitly(runner: FileToolRunner, tmp_path: Path) -> None:
    runner.write(".gitignore", "build/\n")
    runner.write("build/x")
    assert walked(tmp_path, "build") == ["build/x"]


@pytest.mark.parametrize("lines", ["[z-a]\nb\n", "!\n\\\nb\n", "b\n" + "*x*y*z\n" * 2_000, "\udcff\nb\n"])
def test_an_invalid_ignore_line_does_not_affect_the_others(runner: FileToolRunner, tmp_path: Path, lines: str) -> None:
    (runner.folder / ".gitignore").write_bytes(lines.encode(errors="surrogateescape"))
    runner.write("a")
    runner.write("b")
    assert walked(tmp_path) == [".gitignore", "a"]


def test_an_exponential_ignore_pattern_runs_in_linear_time(runner: FileToolRunner, tmp_path: Path) -> None:
    runner.write(".gitignore", "*a" * 40 + "b\n")
    runner.write("a" * 250)
    assert walked(tmp_path) == [".gitignore", "a" * 250]


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(["a", "a/", "/a", "!a", "*.b", "!x.b", "a/*", "a/**", "**/c", "!c", "#a", "d/a", "?", "[ac]"]),
        max_size=5,
    ),
    st.lists(st.sampled_from(["a", "!a", "!x.b", "c", "/c"]), max_size=2),
)
def test_ignored_files_are_those_that_git_ignores(tmp_path: Path, top: list[str], below: list[str]) -> None:
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


def test_entries_that_cannot_be_visited_are_skipped_with_a_note(runner: FileToolRunner, tmp_path: Path) -> None:
    runner.write("a")
    runner.write(".gitignore", "*.o\n")
    (runner.folder / "b").symlink_to(tmp_path)
    (runner.folder / "c\nd").write_text("")
    (runner.folder / os.fsdecode(b"\xff")).write_text("")
    os.mkfifo(runner.folder / "e")
    budget = SearchBudget(Event())
    assert walked(tmp_path, budget=budget) == [".gitignore", "a"]
    assert budget.notes == [
        "1 skipped: symbolic links, which are not followed",
        "2 skipped: names that are not UTF-8 or have control characters in them",
    ]


def test_folders_that_are_too_deep_are_skipped(runner: FileToolRunner, tmp_path: Path) -> None:
    at = runner.folder
    for _ in range(MAX_PATH_DEPTH + 3):
        at = at / "d"
        at.mkdir()
        (at / "f").write_text("")
    budget = SearchBudget(Event())
    assert len(walked(tmp_path, budget=budget)) == MAX_PATH_DEPTH - 1
    assert budget.notes == [f"1 skipped: folders more than {MAX_PATH_DEPTH} deep"]


def test_a_search_ends_when_its_budget_is_spent(runner: FileToolRunner, tmp_path: Path) -> None:
    for name in "abc":
        runner.write(name)
    used = SearchBudget(Event())
    used.spend(entries=MAX_SEARCH_ENTRIES - 3)
    assert walked(tmp_path, budget=used) == ["a", "b"]
    assert used.notes == [
        f"the search ended early: there are more than {MAX_SEARCH_ENTRIES} files and folders: name a smaller folder"
    ]


def test_a_search_ends_at_its_deadline_or_on_cancellation(runner: FileToolRunner, tmp_path: Path) -> None:
    runner.write("a")
    times = iter([0.0, MAX_SEARCH_SECONDS + 1])
    late = SearchBudget(Event(), monotonic=lambda: next(times))
    assert walked(tmp_path, budget=late) == []
    assert late.notes == [
        f"the search ended early: it took longer than {MAX_SEARCH_SECONDS:g} seconds: name a smaller folder"
    ]
    halt = Event()
    halt.set()
    assert walked(tmp_path, budget=SearchBudget(halt)) == []


def test_a_walk_must_start_in_a_folder(runner: FileToolRunner, tmp_path: Path) -> None:
    runner.write("a")
    with pytest.raises(Invalid, match="`a` is not a folder"):
        walked(tmp_path, "a")
    with pytest.raises(NotFound):
        walked(tmp_path, "b")
    assert walked(tmp_path, WORKING_ROOT) == [WorkingPath("a")]
