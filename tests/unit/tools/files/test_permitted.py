"""What the rules deny is denied to every file tool, also to those that only come by."""

import pytest

from holdfast.domain.agent import Permissions
from tests.unit.tools.files.desk import Desk


@pytest.fixture
def ruled(desk: Desk) -> Desk:
    desk.write("a/key.pem", "secret\n")
    desk.write("a/open", "secret\n")
    desk.write("vault/b", "secret\n")
    desk.write("kept", "old\n")
    desk.permissions = Permissions(deny=["read_file(*.pem)", "read_file(vault/**)", "write_file(kept)"])
    return desk


async def test_a_search_does_not_look_into_what_may_not_be_read(ruled: Desk) -> None:
    assert await ruled.does("grep", pattern="secret") == "a/open:1:secret\n[1 line in 1 file]"
    assert await ruled.does("glob", pattern="**/*") == "a/open\nkept\n[2 files]"
    assert await ruled.does("list_dir", path="a") == "open 7\n[1 entry in `a`]"
    assert await ruled.does("list_dir") == "a/\nkept 4\n[2 entries in `.`]"


@pytest.mark.parametrize("path", ["a/key.pem", "a/./x/../key.pem", "vault/b"])
async def test_what_may_not_be_read_is_refused_to_whoever_names_it(ruled: Desk, path: str) -> None:
    for tool, more in (
        ("read_file", {}),
        ("grep", {"pattern": "secret"}),
        ("edit_file", {"old": "secret", "new": "x"}),
        ("write_file", {"content": "x"}),
    ):
        assert "the rules do not allow" in await ruled.refuses(tool, path=path, **more)


async def test_what_may_not_be_written_is_read_and_left_alone(ruled: Desk) -> None:
    await ruled.does("read_file", path="kept")
    assert "the rules do not allow `kept` to be written" in await ruled.refuses(
        "write_file", path="kept", content="new"
    )
    assert "the rules do not allow `kept` to be written" in await ruled.refuses(
        "edit_file", path="kept", old="old", new="new"
    )
    assert (ruled.place / "kept").read_text() == "old\n"
