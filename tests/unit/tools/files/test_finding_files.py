"""`list_dir`, `glob` and `grep`."""

import os

import pytest

from holdfast.tools.builtin.search import MAX_GLOB_FILES, MAX_LISTED_ENTRIES
from holdfast.tools.files.text import MAX_FILE_BYTES, MAX_SHOWN_CHARS
from tests.unit.tools.files.desk import Desk


async def test_a_folder_is_listed(desk: Desk) -> None:
    desk.write("b", "12")
    desk.write("a/x")
    (desk.place / "c").symlink_to("nowhere")
    os.mkfifo(desk.place / "d")
    (desk.place / os.fsdecode(b"e\xff")).write_text("")
    assert await desk.does("list_dir") == "a/\nb 2\nc@\nd?\ne\\udcff 0\n[5 entries in `.`]"
    assert await desk.does("list_dir", path="a/") == "x 0\n[1 entry in `a`]"


async def test_a_folder_that_is_too_full_is_listed_in_part(desk: Desk) -> None:
    for number in range(MAX_LISTED_ENTRIES + 1):
        (desk.place / f"{number:04}").touch()
    said = await desk.does("list_dir")
    assert said.endswith(f"[{MAX_LISTED_ENTRIES} entries in `.`; and there are more: find them with `glob`]")
    for number in range(200):
        desk.write(f"long/{number:03}{'x' * 200}")
    assert len(await desk.does("list_dir", path="long")) <= MAX_SHOWN_CHARS + 200


@pytest.mark.parametrize("tool", ["list_dir", "glob", "grep"])
async def test_a_folder_that_cannot_be_looked_into_is_told(desk: Desk, tool: str) -> None:
    more = {} if tool == "list_dir" else {"pattern": "a"}
    desk.write("a", "")
    (desk.place / "link").symlink_to("..")
    assert (await desk.refuses(tool, path="b", **more)) == "NOT_FOUND: there is no `b`"
    assert (await desk.refuses(tool, path="..", **more)).startswith("INVALID: `..` is outside")
    assert (await desk.refuses(tool, path="link", **more)).startswith("INVALID: `link` is a symbolic link")


async def test_files_are_found_by_a_pattern(desk: Desk) -> None:
    for name in ("a.py", "src/b.py", "src/c.md", "src/deep/d.py", "build/e.py"):
        desk.write(name)
    desk.write(".gitignore", "build/\n")
    assert await desk.does("glob", pattern="**/*.py") == "a.py\nsrc/b.py\nsrc/deep/d.py\n[3 files]"
    assert await desk.does("glob", pattern="src/*.{py,md}") == "src/b.py\nsrc/c.md\n[2 files]"
    assert await desk.does("glob", pattern="././*.py", path="src") == "src/b.py\n[1 file]"
    assert await desk.does("glob", pattern="**/e.py") == "[0 files]"
    assert await desk.does("glob", pattern="**/e.py", ignored=True) == "build/e.py\n[1 file]"
    assert await desk.does("glob", pattern="nowhere/*.py") == "[0 files]"


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../*"])
async def test_a_pattern_that_leads_out_is_refused(desk: Desk, pattern: str) -> None:
    assert "must be relative" in await desk.refuses("glob", pattern=pattern)


async def test_too_many_files_are_told_in_part(desk: Desk) -> None:
    for number in range(MAX_GLOB_FILES + 1):
        (desk.place / str(number)).touch()
    assert (await desk.does("glob", pattern="*")).endswith(
        f"[{MAX_GLOB_FILES} files; and there are more: use a narrower pattern]"
    )


async def test_lines_are_found_by_an_expression(desk: Desk) -> None:
    desk.write("a.py", "import os\nimport sys\n")
    desk.write("src/b.py", "x = 1\nIMPORT\n")
    desk.write("c.md", "import nothing\n")
    said = await desk.does("grep", pattern=r"^import \w+$", glob="*.py")
    assert said == "a.py:1:import os\na.py:2:import sys\n[2 lines in 1 file]"
    assert (await desk.does("grep", pattern="import", path="src", ignore_case=True)) == (
        "src/b.py:2:IMPORT\n[1 line in 1 file]"
    )
    assert await desk.does("grep", pattern="import", files_only=True) == "a.py\nc.md\n[2 files]"
    assert await desk.does("grep", pattern="x = 1", path="src/b.py", context=1) == (
        "src/b.py:1:x = 1\nsrc/b.py-2-IMPORT\n[1 line in 1 file]"
    )
    assert await desk.does("grep", pattern="nowhere") == "[0 lines in 0 files]"


@pytest.mark.parametrize(
    ("more", "told"),
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
async def test_no_more_lines_are_shown_than_was_asked_for(desk: Desk, more: dict[str, int], told: str) -> None:
    desk.write("a", "x\nx\n")
    desk.write("b", "x\n")
    desk.write("c", "y\n")
    assert await desk.does("grep", pattern="x", **more) == told


async def test_what_cannot_be_searched_is_passed_over_and_said(desk: Desk) -> None:
    desk.write("a", "x\n")
    desk.write("b", b"x\x00")
    with desk.write("c").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    desk.write(".gitignore", "d\n")
    desk.write("d", "x\n")
    assert await desk.does("grep", pattern="x") == (
        f"a:1:x\n[1 line in 1 file; 1 skipped: files that are not text; "
        f"1 skipped: files of more than {MAX_FILE_BYTES} bytes]"
    )
    assert (await desk.refuses("grep", pattern="x", path="b")).startswith("INVALID: `b` is binary")
    assert await desk.does("grep", pattern="x", path="d") == "d:1:x\n[1 line in 1 file]"


async def test_an_expression_that_cannot_be_used_is_told(desk: Desk) -> None:
    assert "is not a valid regular expression" in await desk.refuses("grep", pattern="(?=a)")
    assert "without a `}`" in await desk.refuses("grep", pattern="a", glob="{a")


async def test_long_lines_and_many_of_them_fit_what_a_model_reads(desk: Desk) -> None:
    desk.write("a", f"{'x' * 5_000}\n" * 1_000)
    said = await desk.does("grep", pattern="x", limit=1_000)
    assert len(said) <= MAX_SHOWN_CHARS + 200 < desk.tools["grep"].spec.output_limit
    assert "more rows are too many to show" in said
