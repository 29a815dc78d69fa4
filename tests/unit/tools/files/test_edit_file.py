import pytest
from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.events.custom import FileAction
from holdfast.tools.files.write import digest
from tests.unit.tools.files.file_tool_runner import FileToolRunner, file_changed_event

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"


async def prepare(runner: FileToolRunner, content: str | bytes = TEXT) -> None:
    runner.write("a.py", content)
    await runner.call_ok("read_file", path="a.py")


async def test_a_passage_is_replaced_and_the_event_says_what_changed(runner: FileToolRunner) -> None:
    await prepare(runner)
    outcome = await runner.run("edit_file", path="a.py", old="two():\n    return 1", new="two():\n    return 2")
    assert outcome.content == {"path": "a.py", "action": "changed", "size": len(TEXT), "replaced": 1}
    assert (runner.folder / "a.py").read_text() == TEXT.replace("two():\n    return 1", "two():\n    return 2")
    change = file_changed_event(outcome)
    assert change.diff is not UNSET
    assert "-    return 1\n+    return 2\n" in change.diff
    assert (change.digest_before, change.action) == (digest(TEXT.encode()), FileAction.CHANGED)


async def test_edits_of_one_file_follow_each_other(runner: FileToolRunner) -> None:
    await prepare(runner)
    await runner.call_ok("edit_file", path="a.py", old="one", new="first")
    await runner.call_ok("edit_file", path="a.py", old="two", new="second")
    assert (runner.folder / "a.py").read_text() == TEXT.replace("one", "first").replace("two", "second")


async def test_a_passage_that_is_not_there_exactly_once_is_refused(runner: FileToolRunner) -> None:
    await prepare(runner)
    assert (await runner.call_failing("edit_file", path="a.py", old="return 1", new="return 2")).startswith(
        "CONFLICT: `old`"
    )
    assert (await runner.call_failing("edit_file", path="a.py", old="return 3", new="x")).startswith(
        "NOT_FOUND: `old` is not"
    )
    assert (await runner.call_failing("edit_file", path="a.py", old="one", new="one")).startswith(
        "INVALID: `old` and `new`"
    )
    assert (runner.folder / "a.py").read_text() == TEXT


async def test_replace_all_replaces_every_occurrence(runner: FileToolRunner) -> None:
    await prepare(runner)
    text = await runner.call_ok("edit_file", path="a.py", old="return 1", new="return 2", replace_all=True)
    assert text["replaced"] == 2


async def test_a_file_that_was_not_read_or_changed_since_is_not_edited(runner: FileToolRunner) -> None:
    runner.write("a.py", TEXT)
    assert "you have not read it" in await runner.call_failing("edit_file", path="a.py", old="one", new="first")
    await prepare(runner)
    runner.write("a.py", TEXT + "# more\n")
    assert "has changed since you read it" in await runner.call_failing(
        "edit_file", path="a.py", old="one", new="first"
    )
    assert (runner.folder / "a.py").read_text() == TEXT + "# more\n"


@pytest.mark.parametrize(
    ("old", "new", "everywhere"),
    [
        ("one", "first", False),
        ("one", "two", False),
        ("two():\n    return 1\n", "", False),
        ("return 1", "return 2", True),
    ],
)
async def test_an_edit_interrupted_after_writing_is_recognized_as_done(
    runner: FileToolRunner, old: str, new: str, everywhere: bool
) -> None:
    await prepare(runner)
    asked: dict[str, Json] = {"path": "a.py", "old": old, "new": new, "replace_all": everywhere}
    first = await runner.run("edit_file", key="k", settle=False, **asked)
    written = runner.stamp("a.py")
    again = await runner.run("edit_file", key="k", **asked)
    assert (again.content, file_changed_event(again).diff) == (first.content, file_changed_event(first).diff)
    assert runner.stamp("a.py") == written
    await runner.call_ok("edit_file", path="a.py", old="def", new="async def", replace_all=True)


async def test_an_interrupted_edit_that_cannot_be_recognized_is_refused(runner: FileToolRunner) -> None:
    await prepare(runner)
    asked: dict[str, Json] = {"path": "a.py", "old": "return 1", "new": "", "replace_all": True}
    await runner.run("edit_file", key="k", settle=False, **asked)
    edited = (runner.folder / "a.py").read_text()
    assert "perhaps by this very call" in await runner.call_failing("edit_file", key="k", **asked)
    assert (runner.folder / "a.py").read_text() == edited


async def test_an_edit_whose_result_still_matches_is_made_once(runner: FileToolRunner) -> None:
    await prepare(runner, "x\n")
    for _ in range(2):
        await runner.run("edit_file", key="k", settle=False, path="a.py", old="x", new="xy")
    assert (runner.folder / "a.py").read_text() == "xy\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfone\n", b"\xef\xbb\xbfone\nmore\n"),
        (b"one\r\ntwo\r\n", b"one\r\nmore\r\ntwo\r\n"),
        ("\ufeffone\n".encode("utf-16-le"), "\ufeffone\nmore\n".encode("utf-16-le")),
        (b"one\ntwo\r\n", b"one\nmore\ntwo\r\n"),
    ],
)
async def test_an_edit_keeps_encoding_and_line_ends(runner: FileToolRunner, before: bytes, after: bytes) -> None:
    await prepare(runner, before)
    await runner.call_ok("edit_file", path="a.py", old="one\n", new="one\nmore\n")
    assert (runner.folder / "a.py").read_bytes() == after


async def test_line_ends_may_be_given_either_way(runner: FileToolRunner) -> None:
    await prepare(runner, b"one\r\ntwo\r\n")
    await runner.call_ok("edit_file", path="a.py", old="one\r\ntwo", new="a\r\nb")
    assert (runner.folder / "a.py").read_bytes() == b"a\r\nb\r\n"


async def test_a_missing_or_binary_file_is_refused(runner: FileToolRunner) -> None:
    assert (await runner.call_failing("edit_file", path="b", old="a", new="b")) == "NOT_FOUND: there is no `b`"
    await prepare(runner)
    runner.write("a.py", b"\xff")
    assert "neither UTF-8" in await runner.call_failing("edit_file", path="a.py", old="a", new="b")
    assert "NUL" in await runner.call_failing("edit_file", path="a.py", old="a", new="\x00")
