"""Output of a running command is sent as activities: the first at once, the rest throttled and limited."""

import asyncio

import msgspec

from holdfast.domain.events import (
    ActivityDelta,
    ActivityEvent,
    ActivitySnapshot,
)
from holdfast.tools.commands.live_output import MAX_LIVE_CHARS, TRUNCATED_NOTE, LiveOutput
from holdfast.tools.redaction import REDACTED, Redaction
from tests.support.calls import a_call


class Screen:
    """Collects the activities of a call."""

    def __init__(self) -> None:
        self.started = 0
        self.pieces: list[str] = []
        self.changed = asyncio.Event()

    def show(self, event: ActivityEvent) -> None:
        match event:
            case ActivitySnapshot(content=content):
                assert content == {"tool_call_id": "call_1", "output": []}
                self.started += 1
            case ActivityDelta(patch=patch):
                self.pieces += [msgspec.to_builtins(one)["value"] for one in patch]
        self.changed.set()


def live(screen: Screen, *secrets: str) -> LiveOutput:
    return LiveOutput(msgspec.structs.replace(a_call(), emit_activity=screen.show), Redaction(secrets))


async def test_the_first_piece_is_sent_at_once_and_the_next_ones_together() -> None:
    screen = Screen()
    output = live(screen)
    output.feed(b"one\n")
    assert (screen.started, screen.pieces) == (1, ["one\n"])
    output.feed(b"two\n")
    output.feed(b"three\n")
    assert screen.pieces == ["one\n"]
    screen.changed.clear()
    await screen.changed.wait()
    assert screen.pieces == ["one\n", "two\nthree\n"]
    output.end()
    assert screen.started == 1


async def test_a_silent_command_sends_nothing() -> None:
    screen = Screen()
    live(screen).end()
    assert (screen.started, screen.pieces) == (0, [])


async def test_the_rest_is_sent_at_the_end() -> None:
    screen = Screen()
    output = live(screen)
    output.feed(b"one\ntw")
    output.feed(b"o")
    output.end()
    assert screen.pieces == ["one\n", "two"]


async def test_secrets_and_characters_may_be_split_between_pieces() -> None:
    screen = Screen()
    output = live(screen, "sesame-open")
    for byte in "é sesame-open \x00\n".encode():
        output.feed(bytes([byte]))
    output.end()
    assert "".join(screen.pieces) == f"é {REDACTED} �\n"


async def test_live_output_is_limited() -> None:
    screen = Screen()
    output = live(screen)
    for _ in range(10):
        output.feed(b"x" * (MAX_LIVE_CHARS // 4) + b"\n")
    output.end()
    text = "".join(screen.pieces)
    assert text.endswith(TRUNCATED_NOTE)
    assert len(text) == MAX_LIVE_CHARS + len(TRUNCATED_NOTE)


async def test_nothing_is_sent_after_stop() -> None:
    screen = Screen()
    output = live(screen)
    output.feed(b"one\n")
    output.feed(b"two\n")
    output.stop()
    await asyncio.sleep(0)
    assert screen.pieces == ["one\n"]
