"""`list_dir`, `glob` and `grep`."""

import os

import pytest

from holdfast.tools.builtin.search import MAX_GLOB_FILES, MAX_LISTED_ENTRIES
from holdfast.tools.files.text import MAX_FILE_BYTES, MAX_SHOWN_CHARS
from tests.unit.tools.files.file_tool_runner import FileToolRunner


async def test_a_folder_is_listed(runner: FileToolRunner) -> None:
    runner.write("b", "12")
    runner.write("a/x")
    (runner.folder / "c").symlink_to("nowhere")
    os.mkfifo(runner.folder / "d")
    (runner.folder / os.fsdecode(b"e\xff")).write_text("")
    assert await runner.call_ok("list_dir") == "a/\nb 2\nc@\nd?\ne\\udcff 0\n[5 entries in `.`]"
    assert await runner.call_ok("list_dir", path="a/") == "x 0\n[1 entry in `a`]"


async def test_a_listing_is_limited(runner: FileToolRunner) -> None:
    for number in range(MAX_LISTED_ENTRIES + 1):
        (runner.folder / f"{number:04}").touch()
    text = await runner.call_ok("list_dir")
    assert text.endswith(f"[{MAX_LISTED_ENTRIES} entries in `.`; and there are more: find them with `glob`]")
    for number in range(200):
        runner.write(f"long/{number:03}{'x' * 200}")
    assert len(await runner.call_ok("list_dir", path="long")) <= MAX_SHOWN_CHARS + 200


@pytest.mark.parametrize("tool", ["list_dir", "glob", "grep"])
async def test_a_folder_that_cannot_be_opened_is_refused(runner: FileToolRunner, tool: str) -> None:
    more = {} if tool == "list_dir" else {"pattern": "a"}
    runner.write("a", "")
    (runner.folder / "link").symlink_to("..")
    assert (await runner.call_failing(tool, path="b", **more)) == "NOT_FOUND: there is no `b`"
    assert (await runner.call_failing(tool, path="..", **more)).startswith("INVALID: `..` is outside")
    assert (await runner.call_failing(tool, path="link", **more)).startswith("INVALID: `link` is a symbolic link")


async def test_files_are_found_by_a_pattern(runner: FileToolRunner) -> None:
    for name in ("a.py", "src/b.py", "src/c.md", "src/deep/d.py", "build/e.py"):
        runner.write(name)
    runner.write(".gitignore", "build/\n")
    assert await runner.call_ok("glob", pattern="**/*.py") == "a.py\nsrc/b.py\nsrc/deep/d.py\n[3 files]"
    assert await runner.call_ok("glob", pattern="src/*.{py,md}") == "src/b.py\nsrc/c.md\n[2 files]"
    assert await runner.call_ok("glob", pattern="././*.py", path="src") == "src/b.py\n[1 file]"
    assert await runner.call_ok("glob", pattern="**/e.py") == "[0 files]"
    assert await runner.call_ok("glob", pattern="**/e.py", ignored=True) == "build/e.py\n[1 file]"
    assert await runner.call_ok("glob", pattern="nowhere/*.py") == "[0 files]"


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../*"])
async def test_a_pattern_that_leaves_the_folder_is_refused(runner: FileToolRunner, pattern: str) -> None:
    assert "must be relative" in await runner.call_failing("glob", pattern=pattern)


async def test_glob_results_are_limited(runner: FileToolRunner) -> None:
    for number in range(MAX_GLOB_FILES + 1):
        (runner.folder / str(number)).touch()
    assert (await runner.call_ok("glob", pattern="*")).endswith(
        f"[{MAX_GLOB_FILES} files; and there are more: use a narrower pattern]"
    )


async def test_lines_are_found_by_a_regular_expression(runner: FileToolRunner) -> None:
    runner.write("a.py", "import os\nimport sys\n")
    runner.write("src/b.py", "x = 1\nIMPORT\n")
    runner.write("c.md", "import nothing\n")
    text = await runner.call_ok("grep", pattern=r"^import \w+$", glob="*.py")
    assert text == "a.py:1:import os\na.py:2:import sys\n[2 lines in 1 file]"
    assert (await runner.call_ok("grep", pattern="import", path="src", ignore_case=True)) == (
        "src/b.py:2:IMPORT\n[1 line in 1 file]"
    )
    assert await runner.call_ok("grep", pattern="import", files_only=True) == "a.py\nc.md\n[2 files]"
    assert await runner.call_ok("grep", pattern="x = 1", path="src/b.py", context=1) == (
        "src/b.py:1:x = 1\nsrc/b.py-2-IMPORT\n[1 line in 1 file]"
    )
    assert await runner.call_ok("grep", pattern="nowhere") == "[0 lines in 0 files]"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"limit": 2},
            "a:1:x\na:2:x\n[2 lines in 1 file; and there are more: use a narrower pattern, or a larger `limit`]",
        ),
        ({"limit": 3}, "a:1:x\na:2:x\nb:1:x\n[3 lines in 2 files]"),
        (
            {"limit": 1, "files_only": True},
            "a\n[1 file; and there are more: use a narrower pattern, or a larger `limit`]",
        ),
        ({"limit": 2, "files_only": True}, "a\nb\n[2 files]"),
    ],
)
async def test_grep_shows_at_most_limit_lines(runner: FileToolRunner, more: dict[str, int], expected: str) -> None:
    runner.write("a", "x\nx\n")
    runner.write("b", "x\n")
    runner.write("c", "y\n")
    assert await runner.call_ok("grep", pattern="x", **more) == expected


async def test_files_that_cannot_be_searched_are_skipped_with_a_note(runner: FileToolRunner) -> None:
    runner.write("a", "x\n")
    runner.write("b", b"x\x00")
    with runner.write("c").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    runner.write(".gitignore", "d\n")
    runner.write("d", "x\n")
    assert await runner.call_ok("grep", pattern="x") == (
        f"a:1:x\n[1 line in 1 file; 1 skipped: files that are not text; "
        f"1 skipped: files of more than {MAX_FILE_BYTES} bytes]"
    )
    assert (await runner.call_failing("grep", pattern="x", path="b")).startswith("INVALID: `b` is binary")
    assert await runner.call_ok("grep", pattern="x", path="d") == "d:1:x\n[1 line in 1 file]"


async def test_an_invalid_regular_expression_is_refused(runner: FileToolRunner) -> None:
    assert "is not a valid regular expression" in await runner.call_failing("grep", pattern="(?=a)")
    assert "without a `}`" in await runner.call_failing("grep", pattern="a", glob="{a")


async def test_grep_output_fits_the_size_limit(runner: FileToolRunner) -> None:
    runner.write("a", f"{'x' * 5_000}\n" * 1_000)
    text = await runner.call_ok("grep", pattern="x", limit=1_000)
    assert len(text) <= MAX_SHOWN_CHARS + 200 < runner.tools["grep"].spec.output_limit
    assert "more rows are too many to show" in text
