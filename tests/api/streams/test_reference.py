"""The reference says what the code does."""

import re
from typing import Final

from holdfast.api.auth.door import REVOKED
from holdfast.api.socket import LINGER
from holdfast.api.streams.sse import LAST_WORDS
from holdfast.api.streams.websocket import MAX_MESSAGE, Close
from holdfast.control.feeds.feed import WINDOW
from holdfast.control.feeds.feeds import Habits
from tests.architecture.project import ROOT

REFERENCE: Final = (ROOT / "docs" / "reference" / "streams.md").read_text()
CODE: Final = re.compile(r"^\| `(\d+)` \| `(\w+)` \| (.+) \|$", re.MULTILINE)
COMMENT: Final = re.compile(r"^\| `([a-z]+)` \| ", re.MULTILINE)


def test_every_close_code_is_in_the_reference() -> None:
    written = [(int(code), name) for code, name, _ in CODE.findall(REFERENCE)]
    assert written == [(close.value, close.name) for close in sorted(Close)]


def test_every_last_comment_is_in_the_reference() -> None:
    words = [*LAST_WORDS.values(), REVOKED]
    said = {each.decode().removeprefix(": ").split(":")[0] for each in words if each[:1] == b":"}
    assert set(COMMENT.findall(REFERENCE)) == said


def test_the_limits_are_in_the_reference() -> None:
    habits = Habits()
    for limit in (
        f"every {habits.keepalive:g} s",
        f"after {habits.patience:g} to {2 * habits.patience:g} s",
        f"after {LINGER:g} s more",
        f"{MAX_MESSAGE} bytes",
        f"{habits.most:,};",
        f"{WINDOW // 1024} KiB;",
    ):
        assert limit in REFERENCE, limit
