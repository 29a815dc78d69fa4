"""A run in the hands of this process."""

import asyncio

from holdfast.domain.commit import Lease


class Held:
    """A lease, the task that works under it, and how to make it stop."""

    __slots__ = ("cut", "earlier", "lease", "since", "stop", "task")

    def __init__(self, lease: Lease, *, since: float, earlier: "Held | None" = None) -> None:
        self.lease = lease
        self.since = since
        """The time of the event loop before the store was last asked and said that the lease holds."""
        self.earlier = earlier
        """The same run under a lease that was lost, if its task is not over yet."""
        self.stop = asyncio.Event()
        self.cut = False
        self.task: asyncio.Task[Exception | None]

    def drop(self) -> None:
        """Stop the work at once. It is told so once: what it then does to clean up is not disturbed."""
        if not self.cut:
            self.cut = True
            self.task.cancel()
