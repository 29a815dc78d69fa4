"""Starting a run and optionally waiting until it ends or needs a person."""

import asyncio

from msgspec.structs import replace

from holdfast.control.runs import RunControl
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.bus import RunWatcher
from holdfast.ports.runs import Runs


class RunStartControl:
    """Starts and retries runs. With `wait` seconds, it returns once the run has ended or waits for a person."""

    def __init__(self, *, control: RunControl, runs: Runs, watcher: RunWatcher, streams: LiveStreams) -> None:
        self._control = control
        self._runs = runs
        self._watcher = watcher
        self._streams = streams

    async def start(self, space: SpaceId, new: NewRun, *, wait: float = 0) -> CreatedRun:
        """Start a run."""
        return await self._settled(space, await self._control.start(space, new), wait=wait)

    async def start_and_subscribe(self, space: SpaceId, new: NewRun) -> tuple[CreatedRun, Subscriber]:
        """Start a run and subscribe to its log; no run is created if no stream can be opened."""
        self._streams.check_capacity()
        created = await self._control.start(space, new)
        return created, self._streams.subscribe_new_run(created.run)

    async def retry(
        self, space: SpaceId, run: RunId, *, from_start: bool = False, wait: float = 0, key: str | None = None
    ) -> CreatedRun:
        """Retry a failed or cancelled run."""
        created = await self._control.retry(space, run, from_start=from_start, key=key)
        return await self._settled(space, created, wait=wait)

    async def get(self, space: SpaceId, run: RunId, *, wait: float = 0) -> Run:
        """Return a run; an unknown one raises `NotFound` at once."""
        found = await self._runs.get(space, run)
        if not wait or found.settled:
            return found
        return await wait_until_settled(self._watcher, self._runs, self._streams, space, run, seconds=wait)

    async def _settled(self, space: SpaceId, created: CreatedRun, *, wait: float) -> CreatedRun:
        if not wait:
            return created
        run = await wait_until_settled(self._watcher, self._runs, self._streams, space, created.run.id, seconds=wait)
        return replace(created, run=run)


async def wait_until_settled(
    watcher: RunWatcher, runs: Runs, streams: LiveStreams, space: SpaceId, run: RunId, *, seconds: float
) -> Run:
    """Return a run once it has ended or waits for a person, or as it is on timeout or shutdown."""
    with watcher.watch(space, run) as watch:
        try:
            async with asyncio.timeout(seconds) as timeout:
                with streams.on_close(lambda: timeout.reschedule(0)):
                    seq = 0
                    while True:
                        head = await watch.wait_past(seq)
                        if head is None or head.status.terminal or head.status is RunStatus.WAITING:
                            found = await runs.get(space, run)
                            if found.settled:
                                return found
                        seq = 0 if head is None else head.last_event_seq
        except TimeoutError:
            return await runs.get(space, run)
