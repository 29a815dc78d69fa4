"""The event stream of a run: events of any producer, normalised to a legal AG-UI stream.

    ┌─► RUN_STARTED ──► START ─► CONTENT … ─► END ──► RUN_FINISHED · RUN_ERROR ─┐
    │                   of messages, reasoning, tool calls,                     │
    │                   steps and sub-agents, nested or not                     │
    └──────────────────────────── the next segment ─────────────────────────────┘

Every log satisfies these rules:
- A segment begins with `RUN_STARTED` and has one terminal event, followed only by the next `RUN_STARTED`.
- Everything that starts in a segment ends in it, before the terminal event. Only open things continue or end.
- An id names one thing in the whole run: an id that is used again after its end is logged as `<id>-2`, `<id>-3` …, and
  later events of it follow. Only a suspended sub-agent continues in a later segment under its own id.
- A tool call names the message that it belongs to.
- Events of a thing carry the tag of its owner, and a tag names a sub-agent that started in the same segment.

Text is never dropped: a delta without an open message opens one. An event that cannot be repaired is left out.

The state is a fold over the logged events of `STRUCTURAL_TYPES`, never over the producers' events. So a stream that
is rebuilt from its log continues as if it had never stopped.
"""

from holdfast.domain.stream.normaliser import StreamNormaliser
from holdfast.domain.stream.state import STRUCTURAL_TYPES

__all__ = ["STRUCTURAL_TYPES", "StreamNormaliser"]
