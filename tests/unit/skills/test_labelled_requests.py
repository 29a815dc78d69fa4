"""The choice of official skills on labelled requests, half of them Japanese, a third of which need no skill.

Requests marked `held_out` were written after the triggers, which were not changed for them.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from holdfast.domain.ids import SkillId
from holdfast.domain.skill import Skill, SkillContent, SkillSource
from holdfast.skills.choice import Segment, SkillIndex
from holdfast.skills.folder import as_skill
from holdfast.skills.official import official_skills
from tests.architecture.project import ROOT

REQUESTS: Final = Path(__file__).parent / "requests.json"
UNSEEN: Final = Path(__file__).parent / "unseen_requests.json"
"""Requests that were written without the triggers in sight, for which no trigger was changed."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and the skills that it needs."""

    text: str
    locale: str
    skills: list[str]
    held_out: bool = False


class Quality(NamedTuple):
    """How well skills were chosen."""

    needed: int
    found: int
    chosen: int
    wrong: list[str]

    @property
    def precision(self) -> float:
        """The part of the chosen skills that were needed."""
        return 1 - len(self.wrong) / self.chosen

    @property
    def recall(self) -> float:
        """The part of the needed skills that were chosen."""
        return self.found / self.needed


def read_requests(file: Path = REQUESTS) -> list[Request]:
    """Return the labelled requests."""
    return msgspec.json.decode(file.read_bytes(), type=list[Request])


def measure(requests: list[Request], index: SkillIndex) -> Quality:
    """Choose skills for every request, and compare with the labels."""
    needed = found = chosen = 0
    wrong = []
    for request in requests:
        names = [each.skill.name for each in index.choose([Segment(request.text, 1.0)])]
        needed += len(request.skills)
        found += len({*names} & {*request.skills})
        chosen += len(names)
        wrong += [f"{name}: {request.text}" for name in names if name not in request.skills]
    return Quality(needed, found, chosen, wrong)


def test_the_set_is_large_bilingual_and_a_third_needs_nothing() -> None:
    requests = read_requests()
    assert len(requests) >= 120 and len({each.text for each in requests}) == len(requests)
    assert sum(each.locale == "ja" for each in requests) / len(requests) == pytest.approx(1 / 2, abs=0.03)
    assert sum(not each.skills for each in requests) / len(requests) == pytest.approx(1 / 3, abs=0.03)
    names = {skill.name for skill in official_skills()}
    assert names == {name for each in requests for name in each.skills}


def test_skills_are_chosen_as_well_as_stated() -> None:
    requests, index = read_requests(), SkillIndex(official_skills())
    whole = measure(requests, index)
    assert len(whole.wrong) <= 0.01 * len(requests), whole.wrong
    assert (whole.precision, whole.recall) >= (0.99, 0.99)
    held_out = measure([each for each in requests if each.held_out], index)
    assert len(held_out.wrong) <= 0.02 * sum(each.held_out for each in requests), held_out.wrong
    assert held_out.recall >= 0.97


def test_few_skills_are_chosen_wrongly_for_requests_that_nobody_prepared_for() -> None:
    """More than four of five needed skills are found; for the others, the model sees the catalog."""
    requests = read_requests(UNSEEN)
    quality = measure(requests, SkillIndex(official_skills()))
    assert (len(requests), quality.needed) == (60, 40)
    assert len(quality.wrong) <= 1, quality.wrong
    assert quality.found >= 34


def test_every_process_gives_a_request_the_same_scores() -> None:
    code = (
        "from tests.unit.skills.test_labelled_requests import SkillIndex, Segment, official_skills, read_requests;"
        "index = SkillIndex(official_skills());"
        "print([[(each.skill.name, each.score, each.reasons) for each in index.score([Segment(request.text, 1.0)])]"
        " for request in read_requests() if request.locale == 'ja'])"
    )
    scores = {
        subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("0", "1")
    }
    assert len(scores) == 1 and len(scores.pop()) > 1_000


def test_other_skills_in_the_catalog_take_nothing_away() -> None:
    """Skills of others, found by their description alone, are not chosen for requests that need none."""
    requests = [each for each in read_requests() if not each.skills]
    quality = measure(requests, SkillIndex([*official_skills(), *plain_skills()]))
    assert quality.wrong == measure(requests, SkillIndex(official_skills())).wrong
    assert len(quality.wrong) <= 2


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Merge these two PDF files and extract the tables.", "pdf-tools"),
        ("Which tables does the invoices schema have? Query the warehouse.", "warehouse-queries"),
        ("Deploy the staging environment with terraform.", "terraform-deploy"),
    ],
)
def test_a_skill_without_triggers_is_found_by_its_description(request_: str, name: str) -> None:
    index = SkillIndex([*official_skills(), *plain_skills()])
    assert [each.skill.name for each in index.choose([Segment(request_, 1.0)])] == [name]


def plain_skills() -> list[Skill]:
    """Return skills as others publish them: a name and a description, without triggers."""
    descriptions = {
        "pdf-tools": "Extract text and tables from PDF files, fill PDF forms, merge and split PDF documents.",
        "warehouse-queries": "Query the data warehouse with SQL: tables, schemas, invoices, revenue and customers.",
        "terraform-deploy": "Deploy staging and production environments with terraform, and roll back deployments.",
        "brand-guidelines": "Apply brand colours, typography and logo rules to any visual.",
        "spreadsheet": "Create and edit spreadsheets with formulas, charts and pivot tables.",
    }
    return [
        as_skill(
            SkillContent(name=name, description=text, instructions="x"), id=SkillId(name), source=SkillSource.WORKSPACE
        )
        for name, text in descriptions.items()
    ]
