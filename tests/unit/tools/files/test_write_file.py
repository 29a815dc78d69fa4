import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET

from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.domain.ids import ToolCallId
from holdfast.tools.builtin.files import MAX_WRITE_CHARS
from holdfast.tools.files.write import digest
from tests.unit.tools.files.file_tool_runner import FileToolRunner, file_changed_event


async def test_a_file_is_created_and_the_event_has_its_diff(runner: FileToolRunner) -> None:
    outcome = await runner.run("write_file", path="notes/a.md", content="one\n")
    assert outcome.content == {"path": "notes/a.md", "action": "created", "size": 4}
    assert (runner.folder / "notes/a.md").read_text() == "one\n"
    assert file_changed_event(outcome) == FileChanged(
        path="notes/a.md",
        action=FileAction.CREATED,
        size=4,
        digest_after=digest(b"one\n"),
        diff="--- a/notes/a.md\n+++ b/notes/a.md\n@@ -0,0 +1,1 @@\n+one\n",
        tool_call_id=ToolCallId("call_1"),
    )


async def test_a_file_that_was_read_is_replaced_and_the_event_says_what_changed(runner: FileToolRunner) -> None:
    runner.write("a", "one\ntwo\n")
    await runner.call_ok("read_file", path="a")
    change = file_changed_event(await runner.run("write_file", path="a", content="one\nthree\n"))
    assert (change.action, change.digest_before) == (FileAction.CHANGED, digest(b"one\ntwo\n"))
    assert change.diff == "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"


async def test_a_run_may_overwrite_a_file_that_it_wrote(runner: FileToolRunner) -> None:
    for content in ("one", "two"):
        await runner.call_ok("write_file", path="a", content=content)
    assert (runner.folder / "a").read_text() == "two"


async def test_a_file_that_was_not_read_is_not_overwritten(runner: FileToolRunner) -> None:
    runner.write("a", "precious")
    message = await runner.call_failing("write_file", path="a", content="new")
    assert message == "CONFLICT: `a` exists, and you have not read it: read it with `read_file` first"
    assert (runner.folder / "a").read_text() == "precious"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(runner: FileToolRunner) -> None:
    runner.write("a", "old")
    await runner.call_ok("read_file", path="a")
    runner.write("a", "by somebody else")
    assert (await runner.call_failing("write_file", path="a", content="new")).startswith(
        "CONFLICT: `a` has changed since"
    )
    await runner.call_ok("read_file", path="a")
    await runner.call_ok("write_file", path="a", content="new")


async def test_files_that_are_read_in_parallel_are_all_known(runner: FileToolRunner) -> None:
    """Each call receives the values from before any of them settled."""
    for name in "abc":
        runner.write(name, "old")
    outcomes = [await runner.run("read_file", path=name, settle=False) for name in "abc"]
    for outcome in outcomes:
        runner.values |= {name: revise(runner.values.get(name)) for name, revise in outcome.revisions.items()}
    for name in "abc":
        await runner.call_ok("write_file", path=name, content="new")


@pytest.mark.parametrize("before", [None, "old"])
async def test_a_call_interrupted_after_writing_is_recognized_as_done(
    runner: FileToolRunner, before: str | None
) -> None:
    if before is not None:
        runner.write("a", before)
        await runner.call_ok("read_file", path="a")
    await runner.run("write_file", path="a", content="new", key="k", settle=False)
    written = runner.stamp("a")
    again = await runner.run("write_file", path="a", content="new", key="k")
    change = file_changed_event(again)
    assert (change.action, change.diff, change.digest_after) == (FileAction.FOUND, UNSET, digest(b"new"))
    assert change.digest_before == (UNSET if before is None else digest(b"old"))
    assert runner.stamp("a") == written
    await runner.call_ok("write_file", path="a", content="newer")


async def test_an_interrupted_call_is_refused_if_the_file_changed_meanwhile(runner: FileToolRunner) -> None:
    runner.write("a", "old")
    await runner.call_ok("read_file", path="a")
    await runner.run("write_file", path="a", content="new", key="k", settle=False)
    runner.write("a", "by somebody else")
    outcome = await runner.run("write_file", path="a", content="new", key="k")
    assert outcome.failed
    assert (runner.folder / "a").read_text() == "by somebody else"


async def test_a_binary_file_has_no_diff(runner: FileToolRunner) -> None:
    runner.write("a", "old")
    await runner.call_ok("read_file", path="a")
    binary = runner.write("a", b"\xff\x00")
    runner.values["files"]["files"][0]["digest"] = digest(binary.read_bytes())
    change = file_changed_event(await runner.run("write_file", path="a", content="new"))
    assert (change.action, change.diff) == (FileAction.CHANGED, UNSET)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("../a", "INVALID: `../a` is outside"),
        ("/tmp/a", "INVALID: `/tmp/a` is absolute"),
        ("link", "INVALID: `link` is a symbolic link"),
        ("dangling", "INVALID: `dangling` is a symbolic link"),
        ("linked/a", "INVALID: `linked` is a symbolic link"),
        ("folder", "INVALID: `folder` is a folder"),
        ("file/a", "INVALID: `file` is not a folder"),
        (".", "INVALID: `.` is a folder"),
    ],
)
async def test_an_impossible_path_is_refused(runner: FileToolRunner, tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "secret").write_text("secret")
    runner.write("file")
    runner.write("folder/b")
    (runner.folder / "link").symlink_to("../secret")
    (runner.folder / "dangling").symlink_to("../new")
    (runner.folder / "linked").symlink_to("../outside")
    assert (await runner.call_failing("write_file", path=path, content="new")).startswith(expected)
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "outside").iterdir()) == []


async def test_content_that_is_not_text_or_too_long_is_refused(runner: FileToolRunner) -> None:
    assert "NUL" in await runner.call_failing("write_file", path="a", content="a\x00")
    assert "longer than" in await runner.call_failing("write_file", path="a", content="x" * (MAX_WRITE_CHARS + 1))
    assert list(runner.folder.iterdir()) == []


async def test_a_cancelled_call_writes_nothing_more(runner: FileToolRunner) -> None:
    """However the race ends, there is the whole file or none, and no temporary file."""
    for number in range(20):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(runner.run("write_file", path=f"a{number}", content="new"))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        written = {path.name: path.read_text() for path in runner.folder.iterdir()}
        await asyncio.to_thread(lambda: None)
        assert {path.name: path.read_text() for path in runner.folder.iterdir()} == written
        assert set(written.values()) <= {"new"}
