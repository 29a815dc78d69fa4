"""The skill catalog of an agent: what it could use, by precedence, and whether each skill can be used now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.mcp_server import server_tool_prefix
from holdfast.domain.run_skills import ActivationCause, ActiveSkill
from holdfast.domain.skill import Skill, SkillSource
from holdfast.skills.choice import SkillIndex

TOOL_ALIASES: Final[Mapping[str, str]] = {
    "Bash": "bash",
    "Edit": "edit_file",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "list_dir",
    "Read": "read_file",
    "TodoWrite": "todo_write",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "write_file",
}
"""Names that skills written for other programs use for tools of Holdfast."""


class Availability(StrEnum):
    """Whether a skill can be used."""

    AVAILABLE = "available"
    WARNING = "warning"
    """It can, but a tool that it prefers is missing."""
    UNAVAILABLE = "unavailable"
    """Something that it requires is missing; it is never chosen."""


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A skill in the catalog of an agent."""

    skill: Skill
    availability: Availability = Availability.AVAILABLE
    reasons: list[str] = []
    """Why it is not simply available."""
    shadowed_by: SkillSource | None = None
    """The source of the skill with the same name that is used instead."""


class SkillCatalog:
    """The skills of all sources. It is made once, and used until one of them changes."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        ordered = sorted(skills, key=lambda skill: (skill.name, skill.source.rank))
        self._winners: dict[str, Skill] = {}
        self.shadowed: list[tuple[Skill, SkillSource]] = []
        """Skills that are not used, each with the source that shadows it."""
        for skill in ordered:
            winner = self._winners.setdefault(skill.name, skill)
            if winner is not skill:
                self.shadowed.append((skill, winner.source))
        self.index = SkillIndex(self.skills)

    @property
    def skills(self) -> list[Skill]:
        """The skills that are used, by name."""
        return list(self._winners.values())

    def find(self, active: ActiveSkill) -> Skill | None:
        """Return the skill that a run activated, also if another one shadows it by now; null if it is not there."""
        every = (self._winners.get(active.name), *(skill for skill, _ in self.shadowed))
        return next((each for each in every if each is not None and each.id == active.id), None)

    def entries(self, tools: Collection[str], unavailable_servers: Collection[str] = ()) -> list[CatalogEntry]:
        """Return all skills by name, shadowed ones too, for an agent with these tools."""
        shadows = {skill.id: by for skill, by in self.shadowed}
        every = sorted(
            [*self.skills, *(skill for skill, _ in self.shadowed)], key=lambda each: (each.name, each.source.rank)
        )
        return [
            CatalogEntry(skill=skill, availability=state, reasons=reasons, shadowed_by=shadows.get(skill.id))
            for skill in every
            for state, reasons in [check_availability(skill, tools, unavailable_servers)]
        ]


def check_availability(
    skill: Skill, tools: Collection[str], unavailable_servers: Collection[str] = ()
) -> tuple[Availability, list[str]]:
    """Return whether an agent with these tools can use a skill, and why not."""
    contract = skill.contract
    missing = [
        *(f"the tool `{tool}` is missing" for tool in _missing_tools(contract.required_tools, tools)),
        *(
            f"the MCP server `{server}` is missing"
            for server in contract.required_mcp_servers
            if server in unavailable_servers or not any(tool.startswith(server_tool_prefix(server)) for tool in tools)
        ),
        *(f"the template `{each}` is missing" for each in contract.template_ids if each not in skill.templates),
    ]
    if missing:
        return Availability.UNAVAILABLE, missing
    unmet = [f"the preferred tool `{tool}` is missing" for tool in _missing_tools(contract.preferred_tools, tools)]
    return (Availability.WARNING, unmet) if unmet else (Availability.AVAILABLE, [])


def _missing_tools(wanted: Sequence[str], tools: Collection[str]) -> list[str]:
    return [name for name in wanted if TOOL_ALIASES.get(name, name) not in tools]


def tool_rules(allowed: Sequence[str]) -> list[str]:
    """Return the rules of `allowed-tools` in the names of Holdfast: `Bash(git:*)` is `bash(git *)`."""
    rules = []
    for rule in allowed:
        name, parenthesis, specifier = rule.partition("(")
        name = TOOL_ALIASES.get(name, name)
        if name == "bash" and specifier.endswith(":*)"):
            specifier = f"{specifier.removesuffix(':*)')} *)"
        rules.append(f"{name}{parenthesis}{specifier}")
    return rules


def active_skill(
    skill: Skill, cause: ActivationCause, *, score: float | None = None, reasons: Sequence[str] = ()
) -> ActiveSkill:
    """Return a skill as an active one of a run."""
    return ActiveSkill(
        id=skill.id,
        name=skill.name,
        source=skill.source,
        version=skill.version,
        digest=skill.digest,
        cause=cause,
        score=score,
        reasons=list(reasons),
        allowed_tools=None if skill.allowed_tools is None else tool_rules(skill.allowed_tools),
        must_produce=list(skill.contract.must_produce),
    )
