"""A tree of agents with three levels, which wait for each other and for people, while workers are killed.

All of them complete, and nothing is doubled: no run, no message, no question, no answer, no call with effects.
"""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.domain.ids import RunId
from holdfast.domain.interrupt import InterruptStatus
from tests.api.ag_ui.driver import Driver, driving, need_client
from tests.scenario.conftest import NewLocation
from tests.scenario.crash_history import RunHistory
from tests.scenario.crash_play import write_fleet
from tests.scenario.crash_relay import Relay, at_points, at_times, open_relay
from tests.support.counting_server import CountingServer
from tests.support.fork_server import ForkServer

SEED: Final = 20_261_117
FAST_KILLS: Final = {"sqlite": 20, "postgres": 3}
SLOW_KILLS: Final = 500
MAX_KILL_POINT: Final = 200
"""Highest number of the commit point at which a worker is killed."""
MAX_POSTGRES_KILL_POINT: Final = 600
"""The same on PostgreSQL, where each death takes a second: fewer of them in a play."""

_numbers = count(1)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
async def undisturbed(
    crash_workers: ForkServer, tool_server: CountingServer, workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunHistory:
    """Return the history of an undisturbed play."""
    database = tmp_path_factory.mktemp("calm") / "holdfast.db"
    async with open_relay(crash_workers, tool_server, workspace, database) as relay:
        history, _ = await relay.play(_new())
        await relay.check(history, history, streams=False)
    return history


@pytest.fixture
async def relay(
    crash_workers: ForkServer, tool_server: CountingServer, workspace: Path, new_location: NewLocation
) -> AsyncIterator[Relay]:
    async with open_relay(crash_workers, tool_server, workspace, await new_location()) as relay:
        yield relay


def test_the_tree_has_three_levels_with_interrupts_on_each(undisturbed: RunHistory) -> None:
    assert [len(undisturbed.children), len(list(undisturbed.all()))] == [4, 7]
    interrupts = [each for run in undisturbed.all() for each in run.interrupts]
    assert len(interrupts) == 5
    assert {each.status for each in interrupts} == {InterruptStatus.ANSWERED}
    clerks = [child for child in undisturbed.children if child.run.agent_type == "clerk"]
    assert len({child.run.thread_id for child in clerks}) == 1


async def test_kills_anywhere_in_a_tree_of_agents_change_nothing(
    relay: Relay, undisturbed: RunHistory, backend: str
) -> None:
    max_point = MAX_KILL_POINT if backend == "sqlite" else MAX_POSTGRES_KILL_POINT
    await _hunt(relay, undisturbed, kills=FAST_KILLS[backend], max_point=max_point)


async def test_the_real_ag_ui_client_receives_every_event_of_a_tree_whose_workers_were_killed(
    crash_workers: ForkServer, tool_server: CountingServer, workspace: Path, tmp_path: Path
) -> None:
    need_client()
    async with (
        open_relay(crash_workers, tool_server, workspace, tmp_path / "holdfast.db") as relay,
        driving(Driver) as clients,
    ):
        history, _ = await relay.play(_new(), at_points(Random(SEED), max_point=MAX_KILL_POINT))
        assert relay.deaths
        for each in history.all():
            received = await clients.receive(each.events)
            assert received.failed is None, received.failed


@pytest.mark.slow
async def test_hundreds_of_kills_in_a_tree_of_agents_change_nothing(relay: Relay, undisturbed: RunHistory) -> None:
    await _hunt(relay, undisturbed, kills=SLOW_KILLS)


async def _hunt(relay: Relay, undisturbed: RunHistory, *, kills: int, max_point: int = MAX_KILL_POINT) -> None:
    random = Random(SEED)
    while len(relay.deaths) < kills:
        kills_before = len(relay.deaths)
        history, _ = await relay.play(_new(), random.choice([at_points(random, max_point=max_point), at_times(random)]))
        try:
            await relay.check(history, undisturbed, streams=False)
        except AssertionError as exc:
            exc.add_note(f"after {len(relay.deaths) - kills_before} deaths (seed {SEED})")
            raise


def _new() -> RunId:
    return RunId(f"fleet-{next(_numbers)}")
