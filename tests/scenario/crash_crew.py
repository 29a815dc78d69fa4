"""Several concurrent plays with several workers, which are killed one by one while the others continue."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from holdfast.bootstrap.workspace import OpenWorkspace
from holdfast.domain.ids import RunId
from tests.scenario.crash_person import Person
from tests.scenario.crash_play import WATCHED, name_of
from tests.scenario.crash_victim import Task, start_play
from tests.support.counting_server import CountingServer
from tests.support.fork_server import ForkServer

CONCURRENT_PLAYS: Final = 4
MAX_LIFETIME_SECONDS: Final = 0.8
"""Approximate lifetime of a worker in seconds."""


class Crew:
    """Worker processes on one PostgreSQL database; the person uses `holdfast`, which has no worker."""

    def __init__(
        self,
        holdfast: OpenWorkspace,
        victims: Sequence[ForkServer],
        server: CountingServer,
        workspace: Path,
        url: str,
        *,
        random: Random,
    ) -> None:
        self.kills = 0
        self._holdfast = holdfast
        self._victims = victims
        self._server = server
        self._workspace = workspace
        self._url = url
        self._random = random
        self._finished = False

    async def play_until_killed(self, runs: Iterator[RunId], *, kills: int) -> list[RunId]:
        """Play until so many workers were killed, and return the plays once all have ended."""
        plays_run: list[RunId] = []
        async with asyncio.TaskGroup() as workers:
            for victim in self._victims:
                workers.create_task(self._keep_working(victim, kills))
            async with asyncio.TaskGroup() as plays:
                for _ in range(CONCURRENT_PLAYS):
                    plays.create_task(self._keep_playing(runs, kills, plays_run))
            self._finished = True
        return plays_run

    async def _keep_playing(self, runs: Iterator[RunId], kills: int, plays_run: list[RunId]) -> None:
        while not plays_run or self.kills < kills:
            run = next(runs)
            plays_run.append(run)
            await self._server.hold(name_of(run, WATCHED))
            await start_play(self._holdfast, run)
            await Person(self._holdfast, self._url, self._server.path, run).follow()

    async def _keep_working(self, victim: ForkServer, kills: int) -> None:
        while not self._finished:
            task = Task(
                database=self._url,
                workspace=str(self._workspace),
                server=self._server.path,
                lifetime_seconds=self._random.uniform(0, MAX_LIFETIME_SECONDS) if self.kills < kills else None,
            )
            self.kills += (await victim.send(msgspec.to_builtins(task))).killed
