import pytest
from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.events.custom import FileAction
from holdfast.tools.files.write import digest
from tests.unit.tools.files.desk import Desk, the_change

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"


async def prepare(desk: Desk, content: str | bytes = TEXT) -> None:
    desk.write("a.py", content)
    await desk.does("read_file", path="a.py")


async def test_a_passage_is_replaced_and_the_event_says_what_changed(desk: Desk) -> None:
    await prepare(desk)
    outcome = await desk.run("edit_file", path="a.py", old="two():\n    return 1", new="two():\n    return 2")
    assert outcome.content == {"path": "a.py", "action": "changed", "size": len(TEXT), "replaced": 1}
    assert (desk.place / "a.py").read_text() == TEXT.replace("two():\n    return 1", "two():\n    return 2")
    change = the_change(outcome)
    assert change.diff is not UNSET
    assert "-    return 1\n+    return 2\n" in change.diff
    assert (change.digest_before, change.action) == (digest(TEXT.encode()), FileAction.CHANGED)


async def test_edits_of_one_file_follow_each_other(desk: Desk) -> None:
    await prepare(desk)
    await desk.does("edit_file", path="a.py", old="one", new="first")
    await desk.does("edit_file", path="a.py", old="two", new="second")
    assert (desk.place / "a.py").read_text() == TEXT.replace("one", "first").replace("two", "second")


async def test_a_passage_that_is_not_there_once_is_refused(desk: Desk) -> None:
    await prepare(desk)
    assert (await desk.refuses("edit_file", path="a.py", old="return 1", new="return 2")).startswith("CONFLICT: `old`")
    assert (await desk.refuses("edit_file", path="a.py", old="return 3", new="x")).startswith("NOT_FOUND: `old` is not")
    assert (await desk.refuses("edit_file", path="a.py", old="one", new="one")).startswith("INVALID: `old` and `new`")
    assert (desk.place / "a.py").read_text() == TEXT


async def test_every_place_is_replaced_when_asked_for(desk: Desk) -> None:
    await prepare(desk)
    said = await desk.does("edit_file", path="a.py", old="return 1", new="return 2", replace_all=True)
    assert said["replaced"] == 2


async def test_a_file_that_was_not_read_or_changed_since_is_not_edited(desk: Desk) -> None:
    desk.write("a.py", TEXT)
    assert "you have not read it" in await desk.refuses("edit_file", path="a.py", old="one", new="first")
    await prepare(desk)
    desk.write("a.py", TEXT + "# more\n")
    assert "has changed since you read it" in await desk.refuses("edit_file", path="a.py", old="one", new="first")
    assert (desk.place / "a.py").read_text() == TEXT + "# more\n"


@pytest.mark.parametrize(
    ("old", "new", "everywhere"),
    [
        ("one", "first", False),
        ("one", "two", False),
        ("two():\n    return 1\n", "", False),
        ("return 1", "return 2", True),
    ],
)
async def test_an_edit_that_was_cut_off_after_it_was_made_is_found_done(
    desk: Desk, old: str, new: str, everywhere: bool
) -> None:
    await prepare(desk)
    asked: dict[str, Json] = {"path": "a.py", "old": old, "new": new, "replace_all": everywhere}
    first = await desk.run("edit_file", key="k", settle=False, **asked)
    written = desk.stamp("a.py")
    again = await desk.run("edit_file", key="k", **asked)
    assert (again.content, the_change(again).diff) == (first.content, the_change(first).diff)
    assert desk.stamp("a.py") == written
    await desk.does("edit_file", path="a.py", old="def", new="async def", replace_all=True)


async def test_an_edit_that_was_cut_off_is_refused_where_nobody_can_tell(desk: Desk) -> None:
    await prepare(desk)
    asked: dict[str, Json] = {"path": "a.py", "old": "return 1", "new": "", "replace_all": True}
    await desk.run("edit_file", key="k", settle=False, **asked)
    edited = (desk.place / "a.py").read_text()
    assert "perhaps by this very call" in await desk.refuses("edit_file", key="k", **asked)
    assert (desk.place / "a.py").read_text() == edited


async def test_an_edit_that_could_be_made_twice_is_made_once(desk: Desk) -> None:
    await prepare(desk, "x\n")
    for _ in range(2):
        await desk.run("edit_file", key="k", settle=False, path="a.py", old="x", new="xy")
    assert (desk.place / "a.py").read_text() == "xy\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfone\n", b"\xef\xbb\xbfone\nmore\n"),
        (b"one\r\ntwo\r\n", b"one\r\nmore\r\ntwo\r\n"),
        ("\ufeffone\n".encode("utf-16-le"), "\ufeffone\nmore\n".encode("utf-16-le")),
        (b"one\ntwo\r\n", b"one\nmore\ntwo\r\n"),
    ],
)
async def test_a_file_stays_written_as_it_was(desk: Desk, before: bytes, after: bytes) -> None:
    await prepare(desk, before)
    await desk.does("edit_file", path="a.py", old="one\n", new="one\nmore\n")
    assert (desk.place / "a.py").read_bytes() == after


async def test_line_ends_may_be_given_either_way(desk: Desk) -> None:
    await prepare(desk, b"one\r\ntwo\r\n")
    await desk.does("edit_file", path="a.py", old="one\r\ntwo", new="a\r\nb")
    assert (desk.place / "a.py").read_bytes() == b"a\r\nb\r\n"


async def test_what_is_not_there_or_no_text_is_told(desk: Desk) -> None:
    assert (await desk.refuses("edit_file", path="b", old="a", new="b")) == "NOT_FOUND: there is no `b`"
    await prepare(desk)
    desk.write("a.py", b"\xff")
    assert "neither UTF-8" in await desk.refuses("edit_file", path="a.py", old="a", new="b")
    assert "NUL" in await desk.refuses("edit_file", path="a.py", old="a", new="\x00")
