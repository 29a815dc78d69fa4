"""Notifications are dispatched soon after they are created, even if hints are lost."""

import asyncio

import pytest

from holdfast.bootstrap import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.notification import Notification
from holdfast.engine.engine import NotificationLoop
from holdfast.engine.watcher import Watcher
from holdfast.store.notifications import SqlNotifications
from holdfast.store.store import Store
from tests.builders import finish
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import running
from tests.unit.engine.workers import HANG_TIMEOUT_SECONDS, NEVER_SECONDS, LossyBus, background


async def numbered(store: Store, count: int) -> list[Notification]:
    """Wait for so many notifications."""
    while len(notifications := await store.notifications.after(SPACE)) < count:  # noqa: ASYNC110 - the loop continues meanwhile
        await asyncio.sleep(0.002)
    return notifications


@pytest.mark.parametrize("lossy", [False, True])
async def test_notifications_are_dispatched_on_a_hint_or_after_the_fallback_interval(
    store: Store, bus: LocalBus, lossy: bool
) -> None:
    used_bus = LossyBus() if lossy else bus
    watcher = Watcher(
        bus=used_bus, events=store.events, leases=store.leases, clock=SystemClock(), fallback_seconds=NEVER_SECONDS
    )
    loop = NotificationLoop(
        notifications=store.notifications, watcher=watcher, fallback_seconds=0.02 if lossy else NEVER_SECONDS
    )
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), background(watcher.run()), background(loop.run()):
        for number in range(1, 4):
            await finish(store, await running(store, "hi"))
            assert [each.number for each in await numbered(store, number)] == list(range(1, number + 1))


class Failing(SqlNotifications):
    """Notifications that cannot be dispatched the first few times."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.attempts = 0

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        self.attempts += 1
        if self.attempts < 4:
            raise Unavailable("as the test says")
        return await self._store.notifications.dispatch(limit=limit)


async def test_dispatch_is_retried_while_the_store_is_unavailable(store: Store, bus: LocalBus) -> None:
    watcher = Watcher(
        bus=bus, events=store.events, leases=store.leases, clock=SystemClock(), fallback_seconds=NEVER_SECONDS
    )
    await finish(store, await running(store, "hi"))
    loop = NotificationLoop(notifications=Failing(store), watcher=watcher, fallback_seconds=NEVER_SECONDS)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), background(watcher.run()), background(loop.run()):
        await numbered(store, 1)
