"""Where a run stands that has just been made: what its makers wrote need not be read to be known."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.domain.events import PROTOCOL_VERSION, RunStarted
from holdfast.domain.instant import Millis
from holdfast.domain.opening import Opening
from holdfast.domain.run import Run
from holdfast.store.messages import COLUMNS, to_message
from holdfast.store.threads import to_thread
from holdfast.store.transaction import Row


class Entrance(msgspec.Struct, frozen=True):
    """The input of a run as it entered its thread: its rows, and the sequence that comes next."""

    messages: Sequence[tuple[Any, ...]]
    next_sequence: int


def first_event(run: Run, at: Millis) -> RunStarted:
    """Return what the log of a run begins with that was made at that time."""
    return RunStarted(
        timestamp=at,
        thread_id=run.thread_id,
        run_id=run.id,
        protocol_version=PROTOCOL_VERSION,
        parent_run_id=UNSET if run.base_run_id is None else run.base_run_id,
    )


def beginning(run: Run, thread: Row, entrance: Entrance, started: RunStarted) -> Opening:
    """Return where a run stands that goes on from no other and was given no values."""
    now = {"next_sequence": entrance.next_sequence, "last_run_at": started.timestamp}
    names = {"thread_id": run.thread_id, "run_id": run.id}
    given = [dict(zip(COLUMNS, values, strict=True)) | names for values in entrance.messages]
    return Opening(
        thread=to_thread(dict(zip(thread.keys(), thread, strict=True)) | now, run.space_id),
        messages=list(map(to_message, given[-thread["context_window"] :])),
        steps=(),
        values={},
        inbox=(),
        interrupts=(),
        events=[started],
        last_event_seq=run.last_event_seq,
    )
