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
"""Seconds between two activity events; the first one is sent at once."""
MAX_LIVE_CHARS: Final = 128 * 1024
"""Characters of one call that are shown live; the result has the rest."""
TRUNCATED_NOTE: Final = "\n[the rest of the output is not shown while it runs]\n"


class LiveOutput:
    """Sends the output of a call as activity events with the content `{tool_call_id, output: [piece, …]}`."""

    def __init__(self, call: ToolContext, redaction: Redaction) -> None:
        self._call = call
        self._message_id = MessageId(derived_id("msg", key=f"{call.key}.live"))
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._stream = RedactedStream(redaction)
        self._pending: list[str] = []
        self._remaining_chars = MAX_LIVE_CHARS
        self._started = False
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, piece: bytes) -> None:
        """Add the next bytes of the output."""
        if self._remaining_chars > 0:
            self._add(self._stream.feed(self._decoder.decode(piece)))
            if self._timer is None:
                self._send()

    def end(self) -> None:
        """Send the rest of the output."""
        if self._remaining_chars > 0:
            self._add(self._stream.end())
        self.stop()
        self._send()
        self.stop()

    def stop(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _add(self, text: str) -> None:
        if text:
            limit = self._remaining_chars
            self._pending.append(text if len(text) <= limit else text[:limit] + TRUNCATED_NOTE)
            self._remaining_chars -= len(text)

    def _send(self) -> None:
        """Send the pending text, and delay the next event by the interval."""
        self._timer = None
        text, self._pending = sanitize("".join(self._pending)), []
        if not text:
            return
        if not self._started:
            self._started = True
            content = {"tool_call_id": self._call.id, "output": []}
            self._call.emit_activity(
                ActivitySnapshot(message_id=self._message_id, activity_type=OUTPUT_ACTIVITY, content=content)
            )
        self._call.emit_activity(
            ActivityDelta(
                message_id=self._message_id,
                activity_type=OUTPUT_ACTIVITY,
                patch=[PatchAdd(path="/output/-", value=text)],
            )
        )
        self._timer = asyncio.get_running_loop().call_later(SHOW_INTERVAL_SECONDS, self._send)
