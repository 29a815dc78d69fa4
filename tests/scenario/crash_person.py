"""The person of a play: answers interrupts and steers the captain, each once, whatever dies meanwhile."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.bootstrap.workspace import OpenWorkspace
from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Conflict
from holdfast.domain.ids import MessageId, RunId
from holdfast.domain.run import Run, RunStatus, WaitsFor
from holdfast.domain.space import DEFAULT_SPACE
from tests.scenario.crash_play import ANSWER, FIRST_ORDER, SECOND_ORDER, WATCHED, name_of
from tests.support.counting_server import release, wait_until_held
from tests.support.database_probe import open_probe

# In this order: an item moves from the first to the second or the third when it is read.
_ORDERS: Final = (
    "SELECT data FROM inbox WHERE run_key = {run}",
    "SELECT value AS data FROM run_values WHERE run_key = {run} AND name = 'mail'",
    "SELECT content AS data FROM messages WHERE run_key = {run} AND role = 'user'",
)
_RUN: Final = "(SELECT run_key FROM runs WHERE id = '{run}')"


class Person:
    """Follows one run until it has ended."""

    def __init__(
        self, holdfast: OpenWorkspace, database: str | Path, server: str, run: RunId, *, answer: Json = ANSWER
    ) -> None:
        self._holdfast = holdfast
        self._database = database
        self._server = server
        self._run = run
        self._answer = answer

    async def follow(self) -> Run:
        """Respond and steer as the play requires, and return the ended run."""
        steering = asyncio.get_running_loop().create_task(self._steer_the_watch())
        try:
            return await self._follow()
        finally:
            steering.cancel()
            await asyncio.wait([steering])

    async def _follow(self) -> Run:
        seq = 0
        with self._holdfast.watcher.watch(DEFAULT_SPACE, self._run) as watch:
            while (head := await watch.wait_past(seq)) is not None and not head.status.terminal:
                seq = head.last_event_seq
                if head.status is RunStatus.WAITING:
                    await self._respond_or_steer()
        return await self._holdfast.store.runs.get(DEFAULT_SPACE, self._run)

    async def _respond_or_steer(self) -> None:
        run = await self._holdfast.store.runs.get(DEFAULT_SPACE, self._run)
        if run.status_reason == WaitsFor.PERSON:
            for interrupt in await self._holdfast.store.interrupts.open_for_run(DEFAULT_SPACE, self._run):
                with suppress(AlreadyAnswered):
                    await self._holdfast.runs.respond(DEFAULT_SPACE, self._run, self._answer, interrupt=interrupt.id)
        elif run.status_reason == WaitsFor.TIMER and await self._sleeps_long():
            await self._order(SECOND_ORDER)

    async def _sleeps_long(self) -> bool:
        messages = await self._holdfast.store.messages.of_run(DEFAULT_SPACE, self._run)
        return messages[-1].content == "A long sleep."

    async def _steer_the_watch(self) -> None:
        name = name_of(self._run, WATCHED)
        await wait_until_held(self._server, name)
        await self._order(FIRST_ORDER)
        await release(self._server, name)

    async def _order(self, order: str) -> None:
        if not await self._was_sent(order):
            with suppress(Conflict):  # the run has ended
                await self._holdfast.runs.steer(DEFAULT_SPACE, self._run, order, message=MessageId(_id(order)))

    async def _was_sent(self, order: str) -> bool:
        run = _RUN.format(run=self._run)
        async with open_probe(self._database) as probe:
            texts = [row["data"] for sql in _ORDERS for row in await probe.rows(sql.format(run=run))]
        return any(order in str(each) for each in texts)


def _id(order: str) -> str:
    return order.lower().replace(" ", "-").rstrip(".")
