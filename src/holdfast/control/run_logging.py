"""Run status logging: one log line for each run that starts, waits or ends."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import millis
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.bus import WakeHint
from holdfast.ports.log import EventLog, LogHead
from holdfast.ports.runs import Runs

GATHER_SECONDS: Final = 0.1
"""Seconds in which wake hints are gathered: under load, one read covers many runs."""
MAX_RUNS_PER_READ: Final = 1000

_log: Final = logging.getLogger("holdfast.runs")
_UNLOGGED: Final = frozenset({RunStatus.PENDING, RunStatus.QUEUED})
_STATUS_WORDS: Final = {RunStatus.RUNNING: "started", RunStatus.WAITING: "waits"}


class RunStatusLogger:
    """Logs the status changes of runs on wake hints. A missed change is not logged: the run's own log has it."""

    def __init__(self, *, events: EventLog, runs: Runs, gather_seconds: float = GATHER_SECONDS) -> None:
        self._events = events
        self._runs = runs
        self._gather_seconds = gather_seconds
        self._changed: dict[tuple[SpaceId, RunId], list[LogHead]] = {}
        """The runs of pending hints, with the log heads that the hints carried."""
        self._woken = asyncio.Event()
        self._logged: dict[tuple[SpaceId, RunId], RunStatus] = {}

    def on_wake(self, hint: WakeHint) -> None:
        """Queue the runs of a hint."""
        if hint.runs:
            for name in hint.runs:
                self._changed.setdefault(name, [])
            for grown in hint.grown:
                self._changed.setdefault(grown.head.name, []).append(grown.head)
            self._woken.set()

    async def run(self) -> None:
        """Log status changes until cancelled."""
        while True:
            await self._woken.wait()
            await asyncio.sleep(self._gather_seconds)
            await self.flush()

    async def flush(self) -> None:
        """Log the status changes of the hints so far."""
        self._woken.clear()
        changed, self._changed = self._changed, {}
        unread = [name for name, heads in changed.items() if not heads]
        with suppress(Unavailable):  # the store logs its own outage
            await self._log_heads([head for heads in changed.values() for head in heads])
            for start in range(0, len(unread), MAX_RUNS_PER_READ):
                await self._log_heads(await self._events.heads(unread[start : start + MAX_RUNS_PER_READ]))

    async def _log_heads(self, heads: Sequence[LogHead]) -> None:
        for head in heads:
            if not head.status.terminal:
                self._log_status(head.name, head.status)
        ended = [head.name for head in heads if head.status.terminal]
        # One read for all ended runs; runs that were deleted since are missing.
        for run in await self._runs.get_many(ended) if ended else ():
            if run.started_at is not None and (run.space_id, run.id) not in self._logged:
                self._log_status((run.space_id, run.id), RunStatus.RUNNING)
            _log_end(run)
        for name in ended:
            self._logged.pop(name, None)

    def _log_status(self, name: tuple[SpaceId, RunId], status: RunStatus) -> None:
        if status not in _UNLOGGED and self._logged.get(name) is not status:
            self._logged[name] = status
            _log_run(name[1], _STATUS_WORDS[status], {"status": str(status)})


def _log_end(run: Run) -> None:
    tokens, seconds = run.usage.total_tokens, 0.0
    if run.completed_at is not None:
        seconds = (millis(run.completed_at) - millis(run.created_at)) / 1000
    text = f"{run.status} after {seconds:.1f} s, {run.iterations} model calls, {tokens} tokens"
    fields = {"status": str(run.status), "agent": run.agent_type, "seconds": seconds, "tokens": tokens}
    if run.error is not None:
        text += f": {run.error.code}, {run.error.message}"
        fields["code"] = run.error.code
    _log_run(run.id, text, fields)


def _log_run(run: RunId, text: str, fields: dict[str, object]) -> None:
    _log.info("run %s %s", run, text, extra={"fields": {"run_id": run, **fields}})
