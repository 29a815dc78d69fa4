"""Skills in a prompt: one line each for the catalog, and the instructions of the active ones, with what they need.

Instructions, descriptions and file names are text of their authors; a prompt puts them between tags.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from holdfast.domain.run_skills import describe_product
from holdfast.domain.skill import Skill
from holdfast.ports.model import TokenCounter
from holdfast.skills.catalog import tool_rules

MAX_LINE_CHARS: Final = 300
"""Characters of a description in the catalog."""
MAX_SHOWN_FILES: Final = 30
MAX_NAMED: Final = 500
"""Skills that are only named, because their lines do not fit."""


class SkillRenderer:
    """Renders skills, with a cache that all runs of a process share."""

    def __init__(self, tokens: TokenCounter) -> None:
        self.count_tokens = lru_cache(maxsize=1024)(tokens.count)
        self.skill_notes = lru_cache(maxsize=1024)(_skill_notes)

    def catalog_lines(self, skills: Sequence[Skill], locale: str, max_tokens: int) -> str:
        """Return one line per skill, as many as fit; the others are named."""
        lines: list[str] = []
        for number, skill in enumerate(skills):
            line = f"- {skill.name}: {_single_line(skill.in_locale(locale).description)}"
            max_tokens -= self.count_tokens(line)
            if max_tokens < 0:
                names = [each.name for each in skills[number:]]
                more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
                lines.append(f"- (without description, see `skill_catalog`) {', '.join(names[:MAX_NAMED])}{more}")
                break
            lines.append(line)
        return "\n".join(lines)


def _skill_notes(skill: Skill, has_bash: bool) -> str:
    """Return what the model has to know about a skill beside its instructions."""
    notes = []
    if skill.files:
        paths = [file.path for file in skill.files[:MAX_SHOWN_FILES]]
        more = f" and {len(skill.files) - MAX_SHOWN_FILES} more" if len(skill.files) > MAX_SHOWN_FILES else ""
        notes.append(f"Files of `{skill.name}`, read with `skill_describe`: {_single_line(', '.join(paths))}{more}")
        if skill.folder is not None and has_bash:
            notes.append(f"Its folder, read-only for commands: {skill.folder}")
    if skill.contract.must_produce:
        products = "; ".join(describe_product(product) for product in skill.contract.must_produce)
        notes.append(f"When you finish, `{skill.name}` requires: {_single_line(products)}")
    if skill.allowed_tools is not None:
        rules = ", ".join(tool_rules(skill.allowed_tools)) or "none"
        notes.append(f"While `{skill.name}` is active, only these tools may be called: {_single_line(rules)}")
    return "\n".join(notes)


def left_out_note(names: Sequence[str]) -> str:
    """Return the note about skills that would be active and are not."""
    return f"Left out: {_single_line('; '.join(names))}" if names else ""


def _single_line(text: str, *, max_chars: int = MAX_LINE_CHARS) -> str:
    words = " ".join(text.split())
    return words if len(words) <= max_chars else f"{words[: max_chars - 1]}…"
