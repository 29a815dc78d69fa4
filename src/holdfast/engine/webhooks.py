"""The webhook loop posts due deliveries, each on its own connection, and records every attempt.

A receiver that stalls occupies a few connections of its own and delays no other. Redirects are not followed, and a host
that is not on the public internet is refused, as for the web tools.
"""

import asyncio
import logging
from collections import Counter
from datetime import timedelta
from typing import Final

from holdfast.domain.errors import HoldfastError, LeaseLost
from holdfast.domain.instant import Millis, millis
from holdfast.domain.web_url import parse_web_url
from holdfast.domain.webhook import KEEP_DELIVERIES, AttemptResult, DeliveryClaim, signature_headers
from holdfast.engine.loops import WakeEvent, run_forever
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, WakeHint
from holdfast.ports.runtime import Clock
from holdfast.ports.webhooks import Webhooks
from holdfast.tools.web.client import WebClient, WebRequest

ATTEMPT_TIMEOUT_SECONDS: Final = 15.0
DELIVERY_CLAIM_LEASE: Final = timedelta(seconds=60)
"""Longer than an attempt: a delivery whose process died is sent again after it."""
MAX_CONNECTIONS: Final = 32
MAX_CONNECTIONS_PER_WEBHOOK: Final = 4
MAX_RESPONSE_BYTES: Final = 64 * 1024
MIN_WAKE_INTERVAL_SECONDS: Final = 0.02
PRUNE_INTERVAL_MS: Final = 3_600_000
PRUNE_BATCH: Final = 1_000
"""Deliveries that are deleted at once: few, so that no run waits for it."""

_log = logging.getLogger("holdfast.engine")


class WebhookLoop:
    """Sends deliveries."""

    def __init__(
        self,
        *,
        webhooks: Webhooks,
        http: WebClient,
        watcher: Watcher,
        clock: Clock,
        fallback_seconds: float = WAKEUP_FALLBACK_SECONDS,
        attempt_timeout_seconds: float = ATTEMPT_TIMEOUT_SECONDS,
    ) -> None:
        self._webhooks = webhooks
        self._http = http
        self._watcher = watcher
        self._clock = clock
        self._fallback_seconds = fallback_seconds
        self._attempt_timeout_seconds = attempt_timeout_seconds
        self._wake = WakeEvent(min_interval=MIN_WAKE_INTERVAL_SECONDS)
        self._connections: Counter[int] = Counter()
        self._prune_at = clock.now()

    async def run(self) -> None:
        """Send deliveries until cancelled; attempts under way are cancelled too, and made again by the next process."""
        with self._watcher.listen(self._on_wake):
            async with asyncio.TaskGroup() as attempts:
                await run_forever("delivering webhooks", lambda: self._send_due(attempts))

    def _on_wake(self, hint: WakeHint) -> None:
        if hint.deliveries or hint.everything:
            self._wake.set()

    async def _send_due(self, attempts: asyncio.TaskGroup) -> None:
        free = MAX_CONNECTIONS - self._connections.total()
        busy = {key for key, count in self._connections.items() if count >= MAX_CONNECTIONS_PER_WEBHOOK}
        claims = []
        if free > 0:
            limit = min(free, MAX_CONNECTIONS_PER_WEBHOOK)
            claims = await self._webhooks.claim(lease=DELIVERY_CLAIM_LEASE, limit=limit, busy=busy)
        for claim in claims:
            self._connections[claim.webhook_key] += 1
            attempts.create_task(self._attempt(claim))
        if not claims:
            await self._prune()
            await self._wake.wait(seconds=await self._seconds_until_due())

    async def _prune(self) -> None:
        """Delete old deliveries, a batch at a time, and look again after an interval."""
        if self._clock.now() < self._prune_at:
            return
        if await self._webhooks.prune(keep=KEEP_DELIVERIES, limit=PRUNE_BATCH) < PRUNE_BATCH:
            self._prune_at = Millis(self._clock.now() + PRUNE_INTERVAL_MS)

    async def _seconds_until_due(self) -> float:
        due = await self._webhooks.next_due()
        if due is None:
            return self._fallback_seconds
        left = (millis(due) - self._clock.now()) / 1000
        # One that is due but was not claimed waits for an earlier one, or for a connection.
        return min(left, self._fallback_seconds) if left > 0 else self._fallback_seconds

    async def _attempt(self, claim: DeliveryClaim) -> None:
        try:
            await self._webhooks.settle(claim, await self._send(claim))
        except LeaseLost:
            pass  # deleted, or taken over by another process
        except HoldfastError as exc:
            _log.warning("delivery %s cannot be recorded and will be sent again: %s", claim.id, exc)
        finally:
            self._connections[claim.webhook_key] -= 1
            self._connections += Counter()  # drop the zeros
            self._wake.set()

    async def _send(self, claim: DeliveryClaim) -> AttemptResult:
        try:
            headers = {
                "Content-Type": "application/json",
                "User-Agent": "Holdfast",
                **signature_headers(claim, now=self._clock.now()),
            }
            request = WebRequest(
                url=parse_web_url(claim.url),
                headers=headers,
                max_bytes=MAX_RESPONSE_BYTES,
                method="POST",
                body=claim.body.encode(),
            )
            async with asyncio.timeout(self._attempt_timeout_seconds):
                response = await self._http.request(request)
        except TimeoutError:
            return AttemptResult(error=f"no answer within {self._attempt_timeout_seconds:g} s")
        except HoldfastError as exc:
            return AttemptResult(error=exc.message)
        after = response.headers.get("retry-after", "")
        return AttemptResult(
            status=response.status,
            retry_after_seconds=int(after) if after.isascii() and after.isdecimal() and len(after) < 9 else 0,
        )
