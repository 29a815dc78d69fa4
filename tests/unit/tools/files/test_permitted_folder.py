"""Denied paths are denied to every file tool, including searches."""

import pytest

from holdfast.domain.agent import Permissions
from tests.unit.tools.files.file_tool_runner import FileToolRunner


@pytest.fixture
def runner(runner: FileToolRunner) -> FileToolRunner:
    runner.write("a/key.pem", "secret\n")
    runner.write("a/open", "secret\n")
    runner.write("vault/b", "secret\n")
    runner.write("kept", "old\n")
    runner.permissions = Permissions(deny=["read_file(*.pem)", "read_file(vault/**)", "write_file(kept)"])
    return runner


async def test_a_search_skips_hidden_files(runner: FileToolRunner) -> None:
    assert await runner.call_ok("grep", pattern="secret") == "a/open:1:secret\n[1 line in 1 file]"
    assert await runner.call_ok("glob", pattern="**/*") == "a/open\nkept\n[2 files]"
    assert await runner.call_ok("list_dir", path="a") == "open 7\n[1 entry in `a`]"
    assert await runner.call_ok("list_dir") == "a/\nkept 4\n[2 entries in `.`]"


@pytest.mark.parametrize("path", ["a/key.pem", "a/./x/../key.pem", "vault/b"])
async def test_a_hidden_file_is_refused(runner: FileToolRunner, path: str) -> None:
    for tool, more in (
        ("read_file", {}),
        ("grep", {"pattern": "secret"}),
        ("edit_file", {"old": "secret", "new": "x"}),
        ("write_file", {"content": "x"}),
    ):
        assert "the rules do not allow" in await runner.call_failing(tool, path=path, **more)


async def test_a_read_only_file_can_be_read_but_not_written(runner: FileToolRunner) -> None:
    await runner.call_ok("read_file", path="kept")
    assert "the rules do not allow `kept` to be written" in await runner.call_failing(
        "write_file", path="kept", content="new"
    )
    assert "the rules do not allow `kept` to be written" in await runner.call_failing(
        "edit_file", path="kept", old="old", new="new"
    )
    assert (runner.folder / "kept").read_text() == "old\n"
