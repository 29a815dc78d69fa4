"""The skills of one run: what was chosen and why, what the run produced, and whether contracts were kept.

All of it is the run value `skills`, so it survives a crash and branches with the thread. A run that continues another
inherits the value, and chooses anew; skills that the model activated stay active.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId, SkillId
from holdfast.domain.linear_regex import LinearRegex
from holdfast.domain.plan import Plan, PlanStatus
from holdfast.domain.skill import (
    ArtifactProduct,
    FileProduct,
    PlanProduct,
    Product,
    ReminderProduct,
    SkillSource,
)

SKILLS_VALUE: Final = "skills"
MAX_EVIDENCE: Final = 200
"""Products of a run that are remembered; more of the same kind would prove nothing new."""
MAX_CONTRACT_REMINDERS: Final = 2
"""How often a model is told what a contract still requires."""


class ActivationCause(StrEnum):
    """Why a skill is active."""

    NAMED = "named"
    """The agent names it."""
    RELEVANT = "relevant"
    """The request fits it."""
    ACTIVATED = "activated"
    """The model activated it."""


class ActiveSkill(msgspec.Struct, frozen=True, kw_only=True):
    """An active skill of a run."""

    id: SkillId
    name: str
    source: SkillSource
    version: int
    digest: str
    cause: ActivationCause
    score: float | None = None
    """The relevance of the skill to the request."""
    reasons: list[str] = []
    """What the score consists of."""
    allowed_tools: list[str] | None = None
    must_produce: list[Product] = []


class LeftOutSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that would be active, and why it is not."""

    name: str
    reason: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a run produced."""

    kind: str
    """`artifact`, `reminder`, `file` or `plan`."""
    id: str | None = None
    type: str | None = None
    title: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        """Return it in words."""
        words = " ".join(part for part in (self.type, self.kind, self.path) if part)
        return f"{words} `{self.title}`" if self.title else words


class ContractOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the contract of a skill."""

    skill: str
    kept: bool
    evidence: list[str] = []
    """What proves each part that was kept."""
    missing: list[str] = []
    """Each part that was not kept."""


class RunSkills(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of a run."""

    run_id: RunId
    """The run that chose them."""
    locale: str
    active: list[ActiveSkill] = []
    left_out: list[LeftOutSkill] = []
    produced: list[Evidence] = []
    contract_reminders: int = 0
    """How often the model was told what is missing."""
    contracts: list[ContractOutcome] = []
    """Set when the run ends."""

    @property
    def has_contract(self) -> bool:
        """Whether an active skill must produce something."""
        return any(skill.must_produce for skill in self.active)


def read_run_skills(values: Mapping[str, Json]) -> RunSkills | None:
    """Return the skills in the values of a run; a value that cannot be read raises `Invalid`."""
    value = values.get(SKILLS_VALUE)
    try:
        return None if value is None else msgspec.convert(value, RunSkills)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the skills of this run cannot be read: {exc}", value=SKILLS_VALUE) from exc


def skill_restrictions(values: Mapping[str, Json]) -> list[tuple[str, list[str]]]:
    """Return the active skills that narrow the tools of a run, each with its rules."""
    skills = read_run_skills(values) if values.get(SKILLS_VALUE) is not None else None
    return (
        []
        if skills is None
        else [(each.name, each.allowed_tools) for each in skills.active if each.allowed_tools is not None]
    )


def with_evidence(skills: RunSkills, found: Sequence[Evidence]) -> RunSkills:
    """Return the skills of a run with more evidence, each once."""
    new = [each for each in dict.fromkeys(found) if each not in skills.produced]
    return replace(skills, produced=[*skills.produced, *new][:MAX_EVIDENCE]) if new else skills


def check_contracts(skills: RunSkills, plan: Plan) -> list[ContractOutcome]:
    """Return the outcome for each active skill that must produce something."""
    return [
        _outcome(skill.name, skill.must_produce, skills.produced, plan) for skill in skills.active if skill.must_produce
    ]


def conclude_skills(values: Mapping[str, Json], *, run: RunId, plan: Plan) -> RunSkills | None:
    """Return the skills that a run chose, with the outcome of every contract; `None` if there is no contract."""
    skills = read_run_skills(values) if values.get(SKILLS_VALUE) is not None else None
    if skills is None or skills.run_id != run or not skills.has_contract:
        return None
    return replace(skills, contracts=check_contracts(skills, plan))


def _outcome(name: str, products: Sequence[Product], produced: Sequence[Evidence], plan: Plan) -> ContractOutcome:
    evidence, missing = [], []
    for product in products:
        proof = _plan_proof(plan) if isinstance(product, PlanProduct) else _proof(product, produced)
        if proof is None:
            missing.append(describe_product(product))
        else:
            evidence.append(proof)
    return ContractOutcome(skill=name, kept=not missing, evidence=evidence, missing=missing)


def _plan_proof(plan: Plan) -> str | None:
    items = [item for item in plan.items if item.status is not PlanStatus.CANCELLED]
    done = bool(items) and all(item.status is PlanStatus.COMPLETED for item in items)
    return f"plan with {len(items)} completed items" if done else None


def _proof(product: ArtifactProduct | ReminderProduct | FileProduct, produced: Sequence[Evidence]) -> str | None:
    return next((str(each) for each in produced if _proves(each, product)), None)


def _proves(evidence: Evidence, product: ArtifactProduct | ReminderProduct | FileProduct) -> bool:
    match product:
        case ReminderProduct():
            return evidence.kind == "reminder"
        case FileProduct(path=path):
            return evidence.kind == "file" and matches_path(evidence.path or "", path)
        case ArtifactProduct(type=kind, title=title):
            return (
                evidence.kind == "artifact"
                and (kind is None or evidence.type == kind)
                and (title is None or LinearRegex(title, ignore_case=True).search(evidence.title or "") is not None)
            )


def matches_path(path: str, pattern: str) -> bool:
    """Return whether a path is the file, in the folder, or like the pattern that a contract names."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        return path.startswith(pattern)
    return path == pattern or fnmatchcase(path, pattern)


def describe_product(product: Product) -> str:
    """Return what a contract requires, in words."""
    match product:
        case ReminderProduct():
            return "a reminder"
        case PlanProduct():
            return "a plan with every item completed"
        case FileProduct(path=path):
            return f"a file `{path}` in the working folder"
        case ArtifactProduct(type=kind, title=title):
            words = "an artifact" if kind is None else f"an artifact of type `{kind}`"
            return words if title is None else f"{words} whose title matches `{title}`"
