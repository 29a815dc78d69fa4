import pytest

from holdfast.tools.files.text import MAX_FILE_BYTES, MAX_LINES, MAX_SHOWN_CHARS
from tests.unit.tools.files.file_tool_runner import FileToolRunner


async def test_a_file_is_read_with_line_numbers(runner: FileToolRunner) -> None:
    runner.write("src/a.py", "one\n\ttwo\n")
    assert await runner.call_ok("read_file", path="src/a.py") == "     1\tone\n     2\t\ttwo\n[`src/a.py`: 2 lines]"


async def test_a_part_names_its_lines_and_the_next_offset(runner: FileToolRunner) -> None:
    runner.write("a", "".join(f"{number}\n" for number in range(1, 11)))
    text = await runner.call_ok("read_file", path="a", offset=3, limit=2)
    assert text == "     3\t3\n     4\t4\n[`a`: lines 3 to 4 of 10, continue with offset 5]"
    assert (await runner.call_ok("read_file", path="a", offset=9)).endswith("[`a`: lines 9 to 10 of 10]")


async def test_a_long_file_is_read_in_parts(runner: FileToolRunner) -> None:
    runner.write("a", f"{'x' * 100}\n" * 5_000)
    text = await runner.call_ok("read_file", path="a")
    assert len(text) <= MAX_SHOWN_CHARS + 100 < runner.tools["read_file"].spec.output_limit
    assert "continue with offset" in text
    runner.write("a", "x\n" * 5_000)
    assert (await runner.call_ok("read_file", path="a")).endswith(f"continue with offset {MAX_LINES + 1}]")


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b"", "[`a` is empty]"),
        (b"x", "[`a`: 1 line, no newline at the end]"),
        (b"x\r\n", "[`a`: 1 line, with CRLF line ends]"),
        (b"\xef\xbb\xbfx\n", "[`a`: 1 line, UTF-8 with a mark]"),
    ],
)
async def test_an_unusual_encoding_is_noted(runner: FileToolRunner, content: bytes, note: str) -> None:
    runner.write("a", content)
    assert (await runner.call_ok("read_file", path="a")).split("\n")[-1] == note


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\x00\x01", "INVALID: `a` is binary (2 bytes)"), (b"\xe4\n", "INVALID: `a` is neither UTF-8 nor marked")],
)
async def test_a_file_that_is_not_text_is_refused(runner: FileToolRunner, content: bytes, expected: str) -> None:
    runner.write("a", content)
    assert (await runner.call_failing("read_file", path="a")).startswith(expected)


async def test_a_file_that_is_too_large_is_refused(runner: FileToolRunner) -> None:
    with runner.write("a").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert (await runner.call_failing("read_file", path="a")).startswith(
        f"TOO_LARGE: `a` has {MAX_FILE_BYTES + 1} bytes"
    )


async def test_an_offset_beyond_the_end_is_refused(runner: FileToolRunner) -> None:
    runner.write("a", "1\n2\n")
    assert await runner.call_failing("read_file", path="a", offset=3) == "INVALID: `a` has 2 lines: there is no line 3"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("b", "NOT_FOUND: there is no `b`"),
        (".", "INVALID: `.` is a folder"),
        ("/etc/passwd", "INVALID: `/etc/passwd` is absolute"),
        ("../settings.json", "INVALID: `../settings.json` is outside"),
        ("a/../../agents/bot/agent.json", "INVALID: `a/../../agents/bot/agent.json` is outside"),
        ("link", "INVALID: `link` is a symbolic link"),
        ("\x00", "INVALID: the path has a control character"),
        ("x" * 300, "INVALID: a part of the path is longer"),
    ],
)
async def test_a_path_that_cannot_be_read_is_refused(runner: FileToolRunner, path: str, expected: str) -> None:
    (runner.folder.parent / "settings.json").write_text("{}")
    (runner.folder / "link").symlink_to("../settings.json")
    assert (await runner.call_failing("read_file", path=path)).startswith(expected)
