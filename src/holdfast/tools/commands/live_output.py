"""Live output: shows the output of a running call as an activity, throttled, bounded and redacted."""

import asyncio
from codecs import getincrementaldecoder
from typing import Final

from holdfast.domain.events import ActivityDelta, ActivitySnapshot
from holdfast.domain.events.event import PatchAdd
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import MessageId
from holdfast.tools.content import sanitize
from holdfast.tools.redaction import RedactedStream, Redaction
from holdfast.tools.tool import ToolContext

OUTPUT_ACTIVITY: Final = "holdfast.output"
SHOW_INTERVAL_SECONDS: Final = 0.25
"""Seconds between two pieces that are shown; the first is shown at once."""
MAX_LIVE_CHARS: Final = 128 * 1024
"""Characters that are shown of one call; the result has the rest."""
TRUNCATED_NOTE: Final = "\n[the rest of the output is not shown while it runs]\n"


class LiveOutput:
    """Shows what it hears. Its `content` is `{tool_call_id, output: [piece, …]}`."""

    def __init__(self, call: ToolContext, redaction: Redaction) -> None:
        self._call = call
        self._message_id = MessageId(derived_id("msg", key=f"{call.key}.live"))
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._stream = RedactedStream(redaction)
        self._unshown: list[str] = []
        self._room = MAX_LIVE_CHARS
        self._begun = False
        self._pause: asyncio.TimerHandle | None = None

    def hear(self, piece: bytes) -> None:
        """Take the next bytes of the output."""
        if self._room > 0:
            self._gather(self._stream.feed(self._decoder.decode(piece)))
            if self._pause is None:
                self._show()

    def end(self) -> None:
        """Show the rest, now that nothing more comes."""
        if self._room > 0:
            self._gather(self._stream.end())
        self.hush()
        self._show()
        self.hush()

    def hush(self) -> None:
        """Show nothing more."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _gather(self, text: str) -> None:
        if text:
            self._unshown.append(text if len(text) <= self._room else text[: self._room] + TRUNCATED_NOTE)
            self._room -= len(text)

    def _show(self) -> None:
        """Show what has gathered, and let some time pass before the next piece."""
        self._pause = None
        text, self._unshown = sanitize("".join(self._unshown)), []
        if not text:
            return
        if not self._begun:
            self._begin()
        self._call.show(
            ActivityDelta(
                message_id=self._message_id,
                activity_type=OUTPUT_ACTIVITY,
                patch=[PatchAdd(path="/output/-", value=text)],
            )
        )
        self._pause = asyncio.get_running_loop().call_later(SHOW_INTERVAL_SECONDS, self._show)

    def _begin(self) -> None:
        self._begun = True
        content = {"tool_call_id": self._call.id, "output": []}
        self._call.show(ActivitySnapshot(message_id=self._message_id, activity_type=OUTPUT_ACTIVITY, content=content))
