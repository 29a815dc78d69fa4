"""A process that delivers webhooks until none is pending, and may be killed at a commit point."""

import asyncio
from contextlib import nullcontext
from typing import Any, Final

import msgspec

import holdfast.store.postgres.database
import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.ids import WebhookId
from holdfast.domain.instant import Millis
from holdfast.domain.web_settings import private_hosts
from holdfast.domain.webhook import DeliveryState
from holdfast.engine.webhooks import WebhookLoop
from holdfast.testing.clock import HeldClock
from holdfast.tools.web.client import GuardedResolver, SystemResolver, WebClient
from tests.conformance.conftest import SPACE
from tests.support.commit_points import CommitPoints
from tests.support.database_probe import is_postgres
from tests.support.fork_server import SendMessage

HOOK: Final = WebhookId("hook")


class DeliveryTask(msgspec.Struct, frozen=True, kw_only=True):
    """The database, the time, and the commit point at which the process dies, if any."""

    database: str
    now: int
    fatal: int | None = None


class _NoWatcher:
    """Stands in for the watcher: the loop looks again at intervals."""

    def listen(self, on_wake: object) -> Any:
        return nullcontext()


def work(raw: Any, send_message: SendMessage) -> None:
    """Execute a `DeliveryTask`."""
    asyncio.run(_work(msgspec.convert(raw, DeliveryTask), send_message))


async def _work(task: DeliveryTask, send_message: SendMessage) -> None:
    points = CommitPoints(fatal=task.fatal)
    if is_postgres(task.database):
        points.number_postgres()
    else:
        points.number_sqlite()
    clock = HeldClock(Millis(task.now))
    http = WebClient(GuardedResolver(SystemResolver(), private=private_hosts(["127.0.0.1"])))
    watcher: Any = _NoWatcher()
    async with open_store(task.database, bus=LocalBus(), clock=clock) as store:
        loop = WebhookLoop(webhooks=store.webhooks, http=http, watcher=watcher, clock=clock, fallback_seconds=0.005)

        async def has_pending() -> bool:
            return bool((await store.webhooks.deliveries(SPACE, HOOK, state=DeliveryState.PENDING)).items)

        points.start()
        await store.notifications.dispatch()
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(loop.run())
            while await has_pending():  # noqa: ASYNC110 - the loop tells nobody that it is done
                await asyncio.sleep(0.002)
            sending.cancel()
    send_message({"points": points.names})
