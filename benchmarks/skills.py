"""Skills: how well they are chosen, and the CPU of a run whose agent has 200 of them beside one that has none."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.agents import best, opened, run_agent
from benchmarks.bare_run import WORDS
from benchmarks.databases import databases
from benchmarks.table import Table
from holdfast.skills.choice import SkillIndex
from holdfast.skills.official import official_skills
from tests.unit.skills.test_labelled_requests import UNSEEN, read_requests
from tests.unit.skills.test_labelled_requests import measure as measure_choice

SKILLS = 200
AT_ONCE = 16
ROUNDS = 3
REQUEST = "Please handle case 7 now."
"""One of the skills fits it."""


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of the CPU of a run with and without skills, of which none is active, or one."""
    table = Table(
        f"a run of an agent with {SKILLS} skills: {backend}", ["skills", "active", "runs/s", "CPU ms", "ratio of CPU"]
    )
    async with databases(backend) as (where, _), opened(where) as holdfast:
        folder = Path(holdfast.agents.get("default").folder or ".").parents[1]
        _write(folder)
        works: dict[tuple[int, int], list[Any]] = {
            (0, 0): [partial(run_agent, holdfast)] * AT_ONCE,
            (SKILLS, 0): [partial(run_agent, holdfast, agent="knowing")] * AT_ONCE,
            (SKILLS, 1): [partial(run_agent, holdfast, agent="knowing", text=f"{REQUEST} {WORDS}")] * AT_ONCE,
        }
        await works[SKILLS, 0][0]()  # the index is built once
        rounds: dict[tuple[int, int], list[tuple[float, float]]] = {name: [] for name in works}
        for _ in range(ROUNDS):  # in turns, so that noise affects all equally
            for name, work in works.items():
                rounds[name].append(await best(work, seconds / ROUNDS))
    (_, none), *_ = least = [min(found, key=lambda each: each[1]) for found in rounds.values()]
    for (skills, active), (rate, cpu) in zip(works, least, strict=True):
        table.add(skills, active, rate, cpu * 1000, cpu / none)
    return table


async def measure_quality(*, seconds: float) -> Table:
    """Return a table of the choice on labelled requests."""
    table = Table(
        "choice of skills on labelled requests", ["requests", "number", "precision", "recall", "chosen wrongly"]
    )
    requests, index = read_requests(), SkillIndex(official_skills())
    for name, chosen in {
        "all": requests,
        "held out": [each for each in requests if each.held_out],
        "English": [each for each in requests if each.locale == "en"],
        "Japanese": [each for each in requests if each.locale == "ja"],
        "not prepared for": read_requests(UNSEEN),
    }.items():
        quality = measure_choice(chosen, index)
        table.add(name, len(chosen), quality.precision, quality.recall, len(quality.wrong))
    return table


def _write(folder: Path) -> None:
    """Write an agent with skills, and the skills."""
    agent = folder / "agents" / "knowing"
    agent.mkdir()
    for name in ("AGENT.md", "script.json"):
        (agent / name).write_text((folder / "agents" / "default" / name).read_text())
    (agent / "agent.json").write_text(json.dumps({"model": "scripted:script.json", "skills": "auto"}))
    for number in range(SKILLS):
        skill = folder / "skills" / f"skill-{number}"
        skill.mkdir(parents=True)
        front = {
            "description": f"Handle case {number} of the {number % 17} kinds of parcels.",
            "metadata": {"triggers": [f"handle case {number}", f"parcel {number}"]},
        }
        lines = [f"{key}: {json.dumps(value)}" for key, value in front.items()]
        (skill / "SKILL.md").write_text("\n".join(["---", *lines, "---", "Weigh it. " * 50]))
