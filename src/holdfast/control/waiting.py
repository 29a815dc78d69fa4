"""Waiting for a run, for those who can do nothing before it ends."""

import asyncio

from holdfast.control.feeds.feeds import Feeds
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.run import Run, RunStatus, WaitsFor
from holdfast.ports.bus import RunWatcher, Watch
from holdfast.ports.runs import Runs


async def settled(watcher: RunWatcher, runs: Runs, feeds: Feeds, space: SpaceId, run: RunId, *, seconds: float) -> Run:
    """Return a run once it has ended or asks a person, or as it is when the time is over or the process stops."""
    with watcher.watch(space, run) as watch:
        try:
            async with asyncio.timeout(seconds) as time:
                with feeds.until_closed(lambda: time.reschedule(0)):
                    return await _settled(watch, runs, space, run)
        except TimeoutError:
            return await runs.get(space, run)


async def _settled(watch: Watch, runs: Runs, space: SpaceId, run: RunId) -> Run:
    seq = 0
    while True:
        head = await watch.beyond(seq)
        if head is None or head.status.terminal or head.status is RunStatus.WAITING:
            found = await runs.get(space, run)
            if found.status.terminal or found.status_reason == WaitsFor.PERSON:
                return found
        seq = 0 if head is None else head.last_event_seq
