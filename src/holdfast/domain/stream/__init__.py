"""Whatever producers say, the log of a run is a legal AG-UI stream.

    ┌─► RUN_STARTED ──► START ─► CONTENT … ─► END ──► RUN_FINISHED · RUN_ERROR ─┐
    │                   of messages, thoughts, calls, steps                     │
    │                   and sub-agents, in each other or not                    │
    └──────────────────────────── the next segment ─────────────────────────────┘

Of every log it holds that
- each segment begins with `RUN_STARTED` and has one terminal event, after which comes only the next `RUN_STARTED`;
- what starts in a segment ends in it, before its terminal event; nothing goes on or ends that is not open;
- an id names one thing in the whole run: what comes again after its end is logged as `<id>-2`, `<id>-3` …, and whatever
  is said of it later follows; only a suspended sub-agent goes on in a later segment under its own id;
- a tool call names the message that it is in;
- what is said of a thing has its owner's tag, and a tag names a sub-agent that started in the same segment.

Text is never dropped: a delta with no message to go to opens one. What cannot be repaired is left out.

The state is a fold over the logged events of `STRUCTURAL_TYPES`, never over what producers said. So a stream that
is rebuilt from its log goes on as if nothing had happened.
"""

from holdfast.domain.stream.normaliser import StreamNormaliser
from holdfast.domain.stream.state import STRUCTURAL_TYPES

__all__ = ["STRUCTURAL_TYPES", "StreamNormaliser"]
