"""The feed of a space's notifications."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.control.feeds.feed import PAGE, Feed
from holdfast.domain.ids import SpaceId
from holdfast.domain.notification import Notification
from holdfast.ports.bus import RunWatcher, WakeHint
from holdfast.ports.spaces import Notifications

PATIENCE: Final = 2.0
"""Seconds that a lost hint may cost."""


class News(msgspec.Struct, frozen=True, kw_only=True):
    """A notification on its way to those who follow."""

    seq: int
    type: str
    data: bytes


class NewsFeed(Feed):
    """The notifications of a space."""

    def __init__(self, start: int, *, space: SpaceId, notifications: Notifications, watching: RunWatcher) -> None:
        super().__init__(start)
        self._space = space
        self._notifications = notifications
        self._watching = watching
        self._rung = asyncio.Event()

    async def page(self, after: int, *, limit: int = PAGE) -> Sequence[News]:
        """Return notifications after a number."""
        return [_news(each) for each in await self._notifications.after(self._space, after, limit=limit)]

    async def _follow(self) -> None:
        with self._watching.listen(self._hear):
            while self.ending is None:
                self._rung.clear()
                while news := await self.page(self.last):
                    self.add(news)
                await rung(self._rung, within=PATIENCE)

    def _hear(self, wake: WakeHint) -> None:
        if wake.news or wake.everything:
            self._rung.set()


async def rung(bell: asyncio.Event, *, within: float) -> bool:
    """Wait until a bell rings, or for a time; return whether it rang."""
    try:
        async with asyncio.timeout(within):
            await bell.wait()
    except TimeoutError:
        return False
    return True


def _news(notification: Notification) -> News:
    return News(seq=notification.number, type=notification.kind, data=msgspec.json.encode(notification))
