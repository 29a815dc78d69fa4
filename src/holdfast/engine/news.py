"""The news loop: what runs put into the outbox is numbered, so that people can read it in order."""

from typing import Final

from holdfast.engine.bell import Bell
from holdfast.engine.outage import keep_on
from holdfast.engine.watcher import PATIENCE, Watcher
from holdfast.ports.bus import WakeHint
from holdfast.ports.spaces import Notifications

GAP: Final = 0.1
"""Seconds between two dispatches: nobody reads faster, and under load each would be a transaction."""


class NewsLoop:
    """Dispatches notifications."""

    def __init__(self, *, notifications: Notifications, watcher: Watcher, patience: float = PATIENCE) -> None:
        self._notifications = notifications
        self._watcher = watcher
        self._patience = patience
        self._bell = Bell(gap=GAP)

    async def run(self) -> None:
        """Dispatch until cancelled; while the store does not answer, try again."""
        with self._watcher.listen(self._hear):
            await keep_on("dispatching notifications", self._go_round)

    def _hear(self, wake: WakeHint) -> None:
        if wake.news or wake.everything:
            self._bell.ring()

    async def _go_round(self) -> None:
        await self._notifications.dispatch()
        await self._bell.wait(within=self._patience)
