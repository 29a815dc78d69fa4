"""An agent's worker is killed with SIGKILL at any point: the run continues as if undisturbed.

Against a tool server in another process, which counts. What is compared with an undisturbed run is everything: the
conversation, the stream, plan, todo, artifacts, questions and children.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import pytest

from holdfast.bootstrap.workspace import Options, open_workspace
from holdfast.domain.ids import RunId
from tests.scenario.conftest import NewLocation
from tests.scenario.crash_check import check_play
from tests.scenario.crash_crew import Crew
from tests.scenario.crash_history import RunHistory, read
from tests.scenario.crash_play import MATES, STAGES, name_of, write_workspace
from tests.scenario.crash_relay import WORKER, KillPlan, NextKill, Relay, at_points, at_times, open_relay
from tests.support.counting_server import CountingServer
from tests.support.database_probe import open_probe
from tests.support.fork_server import ForkServer
from tests.support.log_check import check_log
from tests.support.postgres import PostgresServer

SEED: Final = 20_261_116
SLOW_KILLS: Final = 2_000
MAX_KILL_POINT: Final = 150
"""Highest number of the commit point at which a worker is killed."""
MAX_POSTGRES_KILL_POINT: Final = 500
"""The same on PostgreSQL, where each death takes a second: fewer of them in a play."""
TURNS: Final = frozenset(
    f"after INSERT INTO {table}" for table in ("messages", "inbox", "interrupts", "timers", "waits", "task_numbers")
) | {"after DELETE FROM inbox"}
"""Commit points at which a conversation advances, by name."""
STRIDE: Final = 60
"""Points per worker when every point must be fatal once; some repeat earlier work."""

UndisturbedPlay: TypeAlias = tuple[RunHistory, list[str]]
"""The history of an undisturbed play, and the points that it passes."""

_numbers = count(1)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_workspace(tmp_path_factory.mktemp("ship"))


@pytest.fixture(scope="module")
async def undisturbed(
    crash_workers: ForkServer, tool_server: CountingServer, workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> UndisturbedPlay:
    """Return a play on SQLite; one on PostgreSQL leaves the same."""
    database = tmp_path_factory.mktemp("calm") / "holdfast.db"
    async with open_relay(crash_workers, tool_server, workspace, database) as relay:
        history, points = await relay.play(_new())
        await relay.check(history, history)
    assert sum(len(each.steps) for each in history.all()) >= 50
    return history, points


@pytest.fixture
async def relay(
    crash_workers: ForkServer, tool_server: CountingServer, workspace: Path, new_location: NewLocation
) -> AsyncIterator[Relay]:
    async with open_relay(crash_workers, tool_server, workspace, await new_location()) as relay:
        yield relay


@pytest.fixture(scope="module")
async def crew_of_three(crash_workers: ForkServer) -> AsyncIterator[list[ForkServer]]:
    async with ForkServer(WORKER) as second, ForkServer(WORKER) as third:
        yield [crash_workers, second, third]


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncIterator[str]:
    name = f"crew_{next(_numbers)}"
    yield await postgres.create_store(name)
    await postgres.drop_database(name)


async def test_an_undisturbed_play_leaves_the_same_history_on_every_store(
    relay: Relay, undisturbed: UndisturbedPlay
) -> None:
    history, _ = await relay.play(_new())
    await relay.check(history, undisturbed[0])
    assert relay.deaths == []


async def test_kills_in_every_model_and_tool_call_change_only_unknown_outcomes(
    relay: Relay, undisturbed: UndisturbedPlay, backend: str
) -> None:
    """On SQLite, where a kill is cheap, at every stage of every call; on PostgreSQL at one stage of every third."""
    random = Random(SEED)
    for moments in _by_stage(undisturbed[1]) if backend == "sqlite" else [_one_of_some_calls(undisturbed[1], random)]:
        await _kill_in_calls(relay, undisturbed[0], moments)
    assert len(relay.deaths) >= (105 if backend == "sqlite" else 10)


async def test_a_kill_after_every_turn_of_the_conversation_changes_nothing(
    crash_workers: ForkServer,
    tool_server: CountingServer,
    workspace: Path,
    shared_memory: Path,
    undisturbed: UndisturbedPlay,
) -> None:
    """Each worker is killed right after an advancing commit is durable, before it is published."""
    async with open_relay(crash_workers, tool_server, workspace, shared_memory / "holdfast.db") as relay:
        await _kill(relay, undisturbed[0], lambda: KillPlan(after=TURNS))
    assert len(relay.deaths) >= 45


async def test_kills_at_commit_points_change_only_unknown_outcomes(
    relay: Relay, undisturbed: UndisturbedPlay, backend: str
) -> None:
    random = Random(SEED)
    max_point = MAX_KILL_POINT if backend == "sqlite" else MAX_POSTGRES_KILL_POINT
    while len(relay.deaths) < (20 if backend == "sqlite" else 3):
        await _kill(relay, undisturbed[0], at_points(random, max_point=max_point))


async def test_kills_at_any_time_change_only_unknown_outcomes(relay: Relay, undisturbed: UndisturbedPlay) -> None:
    random = Random(SEED)
    while len(relay.deaths) < 3:
        await _kill(relay, undisturbed[0], at_times(random))


async def test_kills_among_several_workers_change_only_unknown_outcomes(
    crew_of_three: list[ForkServer],
    tool_server: CountingServer,
    workspace: Path,
    url: str,
    undisturbed: UndisturbedPlay,
) -> None:
    assert await _play_with_crew(crew_of_three, tool_server, workspace, url, undisturbed[0], kills=5) >= 5


@pytest.mark.slow
async def test_thousands_of_kills_of_one_worker_change_only_unknown_outcomes(
    relay: Relay, undisturbed: UndisturbedPlay
) -> None:
    """At every stage of every call, at one commit point after the other, and then at any point and any time."""
    random = Random(SEED)
    for moments in _by_stage(undisturbed[1]):
        await _kill_in_calls(relay, undisturbed[0], moments)
    for first in range(1, STRIDE + 1):
        await _kill(relay, undisturbed[0], _kill_with_stride(first))
    while len(relay.deaths) < SLOW_KILLS:
        await _kill(
            relay, undisturbed[0], random.choice([at_points(random, max_point=MAX_KILL_POINT), at_times(random)])
        )


@pytest.mark.slow
async def test_hundreds_of_kills_among_several_workers_change_only_unknown_outcomes(
    crew_of_three: list[ForkServer],
    tool_server: CountingServer,
    workspace: Path,
    url: str,
    undisturbed: UndisturbedPlay,
) -> None:
    assert await _play_with_crew(crew_of_three, tool_server, workspace, url, undisturbed[0], kills=400) >= 400


async def _play_with_crew(
    victims: list[ForkServer],
    tool_server: CountingServer,
    workspace: Path,
    url: str,
    undisturbed: RunHistory,
    *,
    kills: int,
) -> int:
    async with open_workspace(workspace, database=url, options=Options(workers=0)) as holdfast:
        crew = Crew(holdfast, victims, tool_server, workspace, url, random=Random(SEED))
        for run in await crew.play_until_killed(iter(_new, None), kills=kills):
            history = await read(holdfast.store, run)
            check_play(history, undisturbed, await tool_server.calls(name_of(run, "")))
    async with open_probe(url) as probe:
        await check_log(probe)
    return crew.kills


async def _kill_in_calls(relay: Relay, undisturbed: RunHistory, moments: Collection[str]) -> None:
    """Kill a worker at each of these moments, in one play."""
    remaining, kills_before = set(moments), len(relay.deaths)

    def choose() -> KillPlan:
        remaining.difference_update(name for name in relay.deaths[kills_before:] if name is not None)
        return KillPlan(moments=frozenset(remaining))

    await _kill(relay, undisturbed, choose)
    missed = remaining.difference(name for name in relay.deaths[kills_before:] if name is not None)
    assert all(any(task in name for task in MATES[1:]) for name in missed), "one shot may hit two who work side by side"


async def _kill(relay: Relay, undisturbed: RunHistory, next_kill: NextKill) -> None:
    kills_before = len(relay.deaths)
    history, _ = await relay.play(_new(), next_kill)
    try:
        await relay.check(history, undisturbed)
    except AssertionError as exc:
        exc.add_note(f"after the deaths {relay.deaths[kills_before:]} (seed {SEED})")
        raise


def _kill_with_stride(first: int) -> NextKill:
    """Kill after so many points and then after each stride: all first steps of one stride leave no point out.

    Strides grow slowly, so that nobody dies again and again before a person has had the time to speak.
    """
    strides = chain([first], (STRIDE + before // 10 for before in count()))
    return lambda: KillPlan(fatal=next(strides))


def _by_stage(points: Iterable[str]) -> list[set[str]]:
    return [{name for name in points if name.endswith(f": {stage}")} for stage in STAGES]


def _one_of_some_calls(points: Iterable[str], random: Random) -> set[str]:
    calls: dict[str, list[str]] = {}
    for name in points:
        call, _, stage = name.rpartition(": ")
        if stage in STAGES:
            calls.setdefault(call, []).append(name)
    return {random.choice(moments) for moments in list(calls.values())[::3]}


def _new() -> RunId:
    return RunId(f"voyage-{next(_numbers)}")
