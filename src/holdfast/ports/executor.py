"""What the engine runs: it knows when and where a run is worked on, and nothing of how."""

import asyncio
from typing import Protocol

from holdfast.domain.commit import Lease


class Executor(Protocol):
    """Works on runs."""

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on the run of `lease` until a commit of it ends the lease: the run waits, is queued again or has ended.

        Returning without such a commit gives the run back. Once `stop` is set it commits what it has and returns at
        the next point where nothing is in flight. Cancelled, it stops at once, with all that it started, and writes
        nothing more. `LeaseLost` means that the run is somebody else's now; `Unavailable` that it can be tried again.
        """
