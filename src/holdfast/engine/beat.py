"""The beat: one call renews every lease of the process, and whatever it does not renew is dropped at once."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import OwnerId
from holdfast.engine.bell import Bell
from holdfast.engine.held import Held
from holdfast.engine.outage import Outage
from holdfast.ports.queue import Leases

GAP: Final = 0.02
"""Seconds between two beats, however many runs were ended."""

_log = logging.getLogger(__name__)


class Beat:
    """Keeps the leases of a worker alive for as long as it does itself."""

    def __init__(
        self, leases: Leases, held: Mapping[int, Held], *, owner: OwnerId, lease: timedelta, every: timedelta
    ) -> None:
        self._leases = leases
        self._held = held
        self._owner = owner
        self._lease = lease
        self._every = every.total_seconds()
        self._pause = self._every
        self._bell = Bell(gap=GAP)
        self._outage = Outage("renewing leases")

    def hasten(self) -> None:
        """Beat now: one of the runs may have been ended."""
        self._bell.ring()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._bell.wait(within=self._pause)
            if held := list(self._held.values()):
                await self._renew(held)

    async def _renew(self, held: Sequence[Held]) -> None:
        asked = asyncio.get_running_loop().time()
        leases = [each.lease for each in held]
        try:
            async with asyncio.timeout(self._time_to_answer(held, asked)):
                kept = await self._leases.renew(self._owner, leases, lease=self._lease)
        except (Unavailable, TimeoutError) as exc:
            self._pause = min(self._outage.pause(exc), self._every)
            self._drop_what_ran_out(held)
        else:
            self._pause = self._every
            self._outage.over()
            _keep(held, {(lease.run_key, lease.number) for lease in kept}, asked)

    def _time_to_answer(self, held: Sequence[Held], now: float) -> float:
        """Return for how many seconds to wait: half a lease leaves time for another try, but never past its end.

        A lease that should have run out may still hold: only the store knows.
        """
        lease = self._lease.total_seconds()
        left = min(each.since for each in held) + lease - now
        return min(left, lease / 2) if left > 0 else lease / 2

    def _drop_what_ran_out(self, held: Sequence[Held]) -> None:
        """Stop what may be somebody else's by now: that the store does not answer us says nothing about others."""
        oldest = asyncio.get_running_loop().time() - self._lease.total_seconds()
        for each in held:
            if each.since <= oldest and not each.cut:
                _log.warning("run %s is dropped: its lease could not be renewed in time", each.lease.run_id)
                each.drop()


def _keep(held: Sequence[Held], kept: set[tuple[int, int]], asked: float) -> None:
    for each in held:
        if (each.lease.run_key, each.lease.number) in kept:
            each.since = asked
        else:
            each.drop()
