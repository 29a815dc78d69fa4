"""A writer is killed with SIGKILL anywhere: acknowledged writes are complete, and none is partial."""

import time
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest

from tests.scenario.conftest import NewLocation, Scripts
from tests.scenario.hunt import Hunt, hunting, write_script
from tests.scenario.victim import Task
from tests.scenario.workload import PLAYS, TOGETHER
from tests.support.fork_server import ForkServer

SEED: Final = 20_260_131
SLOW_KILLS: Final = 2_000
BORDERS: Final = {"before BEGIN", "after BEGIN", "before COMMIT", "after COMMIT"}
OPENING_POINTS: Final = 8
"""Slightly more than the commit points of releasing the leases of a dead process."""


async def test_a_kill_at_any_kind_of_commit_point_leaves_each_step_complete_or_absent(
    backend: str, victims: ForkServer, new_location: NewLocation, scripts: Scripts
) -> None:
    """On SQLite, where a kill is cheap, at every kind of point in every play; on PostgreSQL at some of each play."""
    random = Random(SEED)
    seen_names: set[str] = set()
    kills = 0
    for plays in [[play] for play in PLAYS] if backend == "sqlite" else [list(PLAYS)]:
        async with hunting(victims, await new_location(), scripts) as hunt:
            for play in plays:
                points = await hunt.rehearse(play)
                chosen = _one_of_each(points, random)
                for fatal in (
                    chosen if backend == "sqlite" else _prefer_new_names(chosen, points, seen_names, max_points=3)
                ):
                    await _kill_at(hunt, fatal, play, points)
                    seen_names.add(points[fatal - 1].replace(" IMMEDIATE", ""))
            await hunt.record_sessions()
            kills += hunt.kills
    assert kills >= (170 if backend == "sqlite" else 18)
    assert seen_names >= BORDERS


async def test_a_kill_at_any_time_leaves_each_step_complete_or_absent(
    backend: str, victims: ForkServer, new_location: NewLocation, scripts: Scripts
) -> None:
    await _kill_at_random(victims, new_location, scripts, kills=12 if backend == "sqlite" else 4)


async def test_a_kill_during_database_creation_leaves_a_database_that_opens(
    backend: str, victims: ForkServer, new_location: NewLocation, scripts: Scripts
) -> None:
    await _kill_during_creation(victims, new_location, scripts, max_kills=10 if backend == "sqlite" else 2)


async def test_after_a_kill_during_opening_the_next_opening_frees_the_leases_of_dead_processes(
    victims: ForkServer, shared_memory: Path, scripts: Scripts
) -> None:
    async with hunting(victims, shared_memory / "holdfast.db", scripts) as hunt:
        middle = len(await hunt.rehearse("tree")) // 2
        await hunt.kill_at(middle, "tree")
        for fatal in range(1, OPENING_POINTS):
            await hunt.kill_during_open(fatal)
        await hunt.record_sessions()
        assert hunt.kills == OPENING_POINTS


@pytest.mark.slow
async def test_thousands_of_kills_leave_each_step_complete_or_absent(
    victims: ForkServer, new_location: NewLocation, scripts: Scripts
) -> None:
    """At every commit point of every play and of database creation, and then at any time."""
    kills = await _kill_during_creation(victims, new_location, scripts)
    for play in PLAYS:
        async with hunting(victims, await new_location(), scripts) as hunt:
            points = await hunt.rehearse(play)
            for fatal in range(1, len(points) + 1):
                await _kill_at(hunt, fatal, play, points)
            await hunt.record_sessions()
            kills += hunt.kills
    while kills < SLOW_KILLS:
        kills += await _kill_at_random(
            victims, new_location, scripts, kills=min(100, SLOW_KILLS - kills), seed=SEED + kills
        )
    assert kills >= SLOW_KILLS


async def _kill_at(hunt: Hunt, fatal: int, play: str, points: list[str]) -> None:
    try:
        await hunt.kill_at(fatal, play)
    except AssertionError as exc:
        exc.add_note(f"at commit point {fatal} of `{play}`: {points[fatal - 1]} (seed {SEED})")
        raise


async def _kill_at_random(
    victims: ForkServer, new_location: NewLocation, scripts: Scripts, *, kills: int, seed: int = SEED
) -> int:
    """Kill victims at any time, while several concurrent plays share batches."""
    random = Random(seed)
    async with hunting(victims, await new_location(), scripts) as hunt:
        start = time.perf_counter()
        await hunt.rehearse(*list(TOGETHER)[:2])
        duration = time.perf_counter() - start
        while hunt.kills < kills:
            seconds = random.uniform(0, duration)
            plays = random.sample(sorted(TOGETHER), k=3)
            try:
                await hunt.kill_after(seconds, *plays)
            except AssertionError as exc:
                exc.add_note(f"kill {hunt.kills}, after {seconds:.4f} seconds of {plays} (seed {seed})")
                raise
        await hunt.record_sessions()
    return hunt.kills


async def _kill_during_creation(
    victims: ForkServer, new_location: NewLocation, scripts: Scripts, *, max_kills: int | None = None
) -> int:
    """Kill at commit points of the first open, each on its own database, which then works."""
    task = Task(database=str(await new_location()), parts={}, count_opening=True)
    points = (await victims.send(msgspec.to_builtins(task))).messages[-1]["points"]
    numbers = range(1, len(points) + 1)
    chosen = numbers if max_kills is None else Random(SEED).sample(numbers, k=max_kills)
    for fatal in chosen:
        location = await new_location()
        killed_task = msgspec.structs.replace(task, database=str(location), fatal=fatal)
        assert (await victims.send(msgspec.to_builtins(killed_task))).killed
        assert await write_script(location, "waiting") == scripts["waiting"], (
            f"killed {points[fatal - 1]} (seed {SEED})"
        )
    return len(chosen)


def _one_of_each(points: list[str], random: Random) -> list[int]:
    """Return the number of one point of each name."""
    points_by_name: dict[str, list[int]] = {}
    for number, name in enumerate(points, start=1):
        points_by_name.setdefault(name, []).append(number)
    return [random.choice(numbers) for numbers in points_by_name.values()]


def _prefer_new_names(chosen: list[int], points: list[str], seen_names: set[str], *, max_points: int) -> list[int]:
    """Return a few of these points, first those with a new name."""
    return sorted(chosen, key=lambda number: points[number - 1] in seen_names)[:max_points]
