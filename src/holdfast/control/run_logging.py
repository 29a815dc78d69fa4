"""Run status logging: one log line for each run that starts, waits or ends."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import millis
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.bus import WakeHint
from holdfast.ports.log import EventLog, LogHead
from holdfast.ports.runs import Runs

GATHER_SECONDS: Final = 0.1
"""Seconds in which hints are gathered: under load one read then tells of many runs."""
MAX_RUNS_PER_READ: Final = 1000

_log: Final = logging.getLogger("holdfast.runs")
_UNLOGGED: Final = frozenset({RunStatus.PENDING, RunStatus.QUEUED})
_STATUS_WORDS: Final = {RunStatus.RUNNING: "started", RunStatus.WAITING: "waits"}


class RunStatusLogger:
    """Hears of runs, and says what became of them. What it missed it does not say: the run's own log has it."""

    def __init__(self, *, events: EventLog, runs: Runs, gather_seconds: float = GATHER_SECONDS) -> None:
        self._events = events
        self._runs = runs
        self._pause = gather_seconds
        self._changed: dict[tuple[SpaceId, RunId], list[LogHead]] = {}
        """What was hinted at, and where it stood one after the other, if that was said."""
        self._stir = asyncio.Event()
        self._told: dict[tuple[SpaceId, RunId], RunStatus] = {}

    def on_wake(self, wake: WakeHint) -> None:
        """Take note of a hint."""
        if wake.runs:
            for name in wake.runs:
                self._changed.setdefault(name, [])
            for grown in wake.grown:
                self._changed.setdefault(grown.head.name, []).append(grown.head)
            self._stir.set()

    async def run(self) -> None:
        """Write lines until cancelled."""
        while True:
            await self._stir.wait()
            await asyncio.sleep(self._pause)
            self._stir.clear()
            changed, self._changed = self._changed, {}
            unread = [name for name, heads in changed.items() if not heads]
            try:
                await self._tell_of([head for heads in changed.values() for head in heads])
                for start in range(0, len(unread), MAX_RUNS_PER_READ):
                    await self._tell_of(await self._events.heads(unread[start : start + MAX_RUNS_PER_READ]))
            except Unavailable:
                pass  # the store says so itself

    async def _tell_of(self, heads: Sequence[LogHead]) -> None:
        """Say what became of runs; those that ended are read together, unless they were deleted since."""
        for head in heads:
            if not head.status.terminal:
                self._tell(head.name, head.status)
        ended = [head.name for head in heads if head.status.terminal]
        for run in await self._runs.get_many(ended) if ended else ():
            if run.started_at is not None and (run.space_id, run.id) not in self._told:
                self._tell((run.space_id, run.id), RunStatus.RUNNING)
            _log_end(run)
        for name in ended:
            self._told.pop(name, None)

    def _tell(self, name: tuple[SpaceId, RunId], status: RunStatus) -> None:
        if status not in _UNLOGGED and self._told.get(name) is not status:
            self._told[name] = status
            _log_run(name[1], _STATUS_WORDS[status], {"status": str(status)})


def _log_end(run: Run) -> None:
    tokens, seconds = run.usage.total_tokens, _duration_seconds(run)
    said = f"{run.status} after {seconds:.1f} s, {run.iterations} model calls, {tokens} tokens"
    if run.error is not None:
        said += f": {run.error.code}, {run.error.message}"
    facts = {"status": str(run.status), "agent": run.agent_type, "seconds": seconds, "tokens": tokens}
    _log_run(run.id, said, facts | ({} if run.error is None else {"code": run.error.code}))


def _duration_seconds(run: Run) -> float:
    if run.completed_at is None:
        return 0.0
    return (millis(run.completed_at) - millis(run.created_at)) / 1000


def _log_run(run: RunId, said: str, facts: dict[str, object]) -> None:
    _log.info("run %s %s", run, said, extra={"said": {"run_id": run, **facts}})
