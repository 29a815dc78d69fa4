import pytest

from holdfast.tools.files.text import MAX_FILE_BYTES, MAX_LINES, MAX_SHOWN_CHARS
from tests.unit.tools.files.desk import Desk


async def test_a_file_is_read_with_line_numbers(desk: Desk) -> None:
    desk.write("src/a.py", "one\n\ttwo\n")
    assert await desk.does("read_file", path="src/a.py") == "     1\tone\n     2\t\ttwo\n[`src/a.py`: 2 lines]"


async def test_a_part_says_which_and_how_to_go_on(desk: Desk) -> None:
    desk.write("a", "".join(f"{number}\n" for number in range(1, 11)))
    said = await desk.does("read_file", path="a", offset=3, limit=2)
    assert said == "     3\t3\n     4\t4\n[`a`: lines 3 to 4 of 10, continue with offset 5]"
    assert (await desk.does("read_file", path="a", offset=9)).endswith("[`a`: lines 9 to 10 of 10]")


async def test_a_long_file_comes_in_parts_that_fit(desk: Desk) -> None:
    desk.write("a", f"{'x' * 100}\n" * 5_000)
    said = await desk.does("read_file", path="a")
    assert len(said) <= MAX_SHOWN_CHARS + 100 < desk.tools["read_file"].spec.output_limit
    assert "continue with offset" in said
    desk.write("a", "x\n" * 5_000)
    assert (await desk.does("read_file", path="a")).endswith(f"continue with offset {MAX_LINES + 1}]")


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b"", "[`a` is empty]"),
        (b"x", "[`a`: 1 line, no newline at the end]"),
        (b"x\r\n", "[`a`: 1 line, with CRLF line ends]"),
        (b"\xef\xbb\xbfx\n", "[`a`: 1 line, UTF-8 with a mark]"),
    ],
)
async def test_what_is_unusual_about_a_file_is_said(desk: Desk, content: bytes, note: str) -> None:
    desk.write("a", content)
    assert (await desk.does("read_file", path="a")).split("\n")[-1] == note


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"\x00\x01", "INVALID: `a` is binary (2 bytes)"), (b"\xe4\n", "INVALID: `a` is neither UTF-8 nor marked")],
)
async def test_what_is_no_text_is_told(desk: Desk, content: bytes, told: str) -> None:
    desk.write("a", content)
    assert (await desk.refuses("read_file", path="a")).startswith(told)


async def test_a_file_that_is_too_large_is_told(desk: Desk) -> None:
    with desk.write("a").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert (await desk.refuses("read_file", path="a")).startswith(f"TOO_LARGE: `a` has {MAX_FILE_BYTES + 1} bytes")


async def test_a_line_that_is_not_there_is_told(desk: Desk) -> None:
    desk.write("a", "1\n2\n")
    assert await desk.refuses("read_file", path="a", offset=3) == "INVALID: `a` has 2 lines: there is no line 3"


@pytest.mark.parametrize(
    ("path", "told"),
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
async def test_what_cannot_be_read_is_told(desk: Desk, path: str, told: str) -> None:
    (desk.place.parent / "settings.json").write_text("{}")
    (desk.place / "link").symlink_to("../settings.json")
    assert (await desk.refuses("read_file", path=path)).startswith(told)
