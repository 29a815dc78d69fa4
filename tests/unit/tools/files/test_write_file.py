import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET

from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.domain.ids import ToolCallId
from holdfast.tools.builtin.files import MAX_WRITE_CHARS
from holdfast.tools.files.write import digest
from tests.unit.tools.files.desk import Desk, the_change


async def test_a_file_is_made_and_the_event_says_what_it_says(desk: Desk) -> None:
    outcome = await desk.run("write_file", path="notes/a.md", content="one\n")
    assert outcome.content == {"path": "notes/a.md", "action": "created", "size": 4}
    assert (desk.place / "notes/a.md").read_text() == "one\n"
    assert the_change(outcome) == FileChanged(
        path="notes/a.md",
        action=FileAction.CREATED,
        size=4,
        digest_after=digest(b"one\n"),
        diff="--- a/notes/a.md\n+++ b/notes/a.md\n@@ -0,0 +1,1 @@\n+one\n",
        tool_call_id=ToolCallId("call_1"),
    )


async def test_a_file_that_was_read_is_replaced_and_the_event_says_what_changed(desk: Desk) -> None:
    desk.write("a", "one\ntwo\n")
    await desk.does("read_file", path="a")
    change = the_change(await desk.run("write_file", path="a", content="one\nthree\n"))
    assert (change.action, change.digest_before) == (FileAction.CHANGED, digest(b"one\ntwo\n"))
    assert change.diff == "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"


async def test_what_a_run_wrote_it_may_write_again(desk: Desk) -> None:
    for content in ("one", "two"):
        await desk.does("write_file", path="a", content=content)
    assert (desk.place / "a").read_text() == "two"


async def test_a_file_that_was_not_read_is_not_written_over(desk: Desk) -> None:
    desk.write("a", "precious")
    told = await desk.refuses("write_file", path="a", content="new")
    assert told == "CONFLICT: `a` exists, and you have not read it: read it with `read_file` first"
    assert (desk.place / "a").read_text() == "precious"


async def test_a_file_that_changed_since_it_was_read_is_not_written_over(desk: Desk) -> None:
    desk.write("a", "old")
    await desk.does("read_file", path="a")
    desk.write("a", "by somebody else")
    assert (await desk.refuses("write_file", path="a", content="new")).startswith("CONFLICT: `a` has changed since")
    await desk.does("read_file", path="a")
    await desk.does("write_file", path="a", content="new")


async def test_files_that_are_read_side_by_side_are_all_known(desk: Desk) -> None:
    """Each call was given the values as they were before any of them settled."""
    for name in "abc":
        desk.write(name, "old")
    outcomes = [await desk.run("read_file", path=name, settle=False) for name in "abc"]
    for outcome in outcomes:
        desk.values |= {name: revise(desk.values.get(name)) for name, revise in outcome.revisions.items()}
    for name in "abc":
        await desk.does("write_file", path=name, content="new")


@pytest.mark.parametrize("before", [None, "old"])
async def test_a_call_that_was_cut_off_after_it_wrote_is_found_done(desk: Desk, before: str | None) -> None:
    if before is not None:
        desk.write("a", before)
        await desk.does("read_file", path="a")
    await desk.run("write_file", path="a", content="new", key="k", settle=False)
    written = desk.stamp("a")
    again = await desk.run("write_file", path="a", content="new", key="k")
    change = the_change(again)
    assert (change.action, change.diff, change.digest_after) == (FileAction.FOUND, UNSET, digest(b"new"))
    assert change.digest_before == (UNSET if before is None else digest(b"old"))
    assert desk.stamp("a") == written
    await desk.does("write_file", path="a", content="newer")


async def test_a_call_that_was_cut_off_is_refused_if_somebody_wrote_meanwhile(desk: Desk) -> None:
    desk.write("a", "old")
    await desk.does("read_file", path="a")
    await desk.run("write_file", path="a", content="new", key="k", settle=False)
    desk.write("a", "by somebody else")
    outcome = await desk.run("write_file", path="a", content="new", key="k")
    assert outcome.failed
    assert (desk.place / "a").read_text() == "by somebody else"


async def test_a_file_that_was_no_text_has_no_diff(desk: Desk) -> None:
    desk.write("a", "old")
    await desk.does("read_file", path="a")
    binary = desk.write("a", b"\xff\x00")
    desk.values["files"]["files"][0]["digest"] = digest(binary.read_bytes())
    change = the_change(await desk.run("write_file", path="a", content="new"))
    assert (change.action, change.diff) == (FileAction.CHANGED, UNSET)


@pytest.mark.parametrize(
    ("path", "told"),
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
async def test_nothing_is_written_where_no_file_can_be(desk: Desk, tmp_path: Path, path: str, told: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "secret").write_text("secret")
    desk.write("file")
    desk.write("folder/b")
    (desk.place / "link").symlink_to("../secret")
    (desk.place / "dangling").symlink_to("../new")
    (desk.place / "linked").symlink_to("../outside")
    assert (await desk.refuses("write_file", path=path, content="new")).startswith(told)
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "outside").iterdir()) == []


async def test_what_is_no_text_or_too_long_is_refused(desk: Desk) -> None:
    assert "NUL" in await desk.refuses("write_file", path="a", content="a\x00")
    assert "longer than" in await desk.refuses("write_file", path="a", content="x" * (MAX_WRITE_CHARS + 1))
    assert list(desk.place.iterdir()) == []


async def test_a_call_that_is_cancelled_writes_nothing_from_then_on(desk: Desk) -> None:
    """However the race ends: there is the whole file or none, and nothing half done beside it."""
    for number in range(20):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(desk.run("write_file", path=f"a{number}", content="new"))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        written = {path.name: path.read_text() for path in desk.place.iterdir()}
        await asyncio.to_thread(lambda: None)
        assert {path.name: path.read_text() for path in desk.place.iterdir()} == written
        assert set(written.values()) <= {"new"}
