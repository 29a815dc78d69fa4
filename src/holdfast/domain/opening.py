"""Where a run stands when a worker takes it up."""

from collections.abc import Sequence

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.events import Event
from holdfast.domain.inbox import InboxItem
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.message import Message
from holdfast.domain.step import Step
from holdfast.domain.thread import Thread


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker needs to begin a run, or to go on with one."""

    thread: Thread
    messages: Sequence[Message]
    """The end of the conversation: as many messages as the thread's `context_window`, oldest first."""
    steps: Sequence[Step]
    """Those of this run, by number."""
    values: dict[str, Json]
    inbox: Sequence[InboxItem]
    interrupts: Sequence[Interrupt]
    """The questions that are open."""
    events: Sequence[Event]
    """Those that say how the run's stream stands: of `STRUCTURAL_TYPES`, in order."""
    last_event_seq: int
