"""Starting a run, and staying until something came of it."""

from msgspec.structs import replace

from holdfast.control.feeds.feeds import Feeds
from holdfast.control.feeds.follower import Follower
from holdfast.control.runs import RunControl
from holdfast.control.waiting import settled
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.ports.bus import RunWatcher
from holdfast.ports.runs import Runs


class RunStarts:
    """The ways in which a run begins. With `wait`, they return once it has ended or asks a person, or time is over."""

    def __init__(self, *, control: RunControl, runs: Runs, watcher: RunWatcher, feeds: Feeds) -> None:
        self._control = control
        self._runs = runs
        self._watcher = watcher
        self._feeds = feeds

    async def start(self, space: SpaceId, new: NewRun, *, wait: float = 0) -> CreatedRun:
        """Make a run."""
        return await self._settled(space, await self._control.start(space, new), wait=wait)

    async def follow(self, space: SpaceId, new: NewRun) -> tuple[CreatedRun, Follower]:
        """Make a run, and follow it from its beginning; where nothing can be followed, none is made."""
        self._feeds.check_room()
        created = await self._control.start(space, new)
        return created, self._feeds.new_run(created.run)

    async def retry(self, space: SpaceId, run: RunId, *, from_start: bool = False, wait: float = 0) -> CreatedRun:
        """Try a run again that failed or was cancelled."""
        return await self._settled(space, await self._control.retry(space, run, from_start=from_start), wait=wait)

    async def _settled(self, space: SpaceId, created: CreatedRun, *, wait: float) -> CreatedRun:
        if not wait:
            return created
        run = await settled(self._watcher, self._runs, self._feeds, space, created.run.id, seconds=wait)
        return replace(created, run=run)
