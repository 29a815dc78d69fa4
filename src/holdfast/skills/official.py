"""The official skills, which come with Holdfast, in English and Japanese."""

from functools import lru_cache
from pathlib import Path
from typing import Final

from holdfast.domain.skill import Skill, SkillSource
from holdfast.skills.folder import DiskFolder, find_skills, read_skill

OFFICIAL_FOLDER: Final = Path(__file__).parent / "official_skills"
OFFICIAL_ID_PREFIX: Final = "official:"


@lru_cache(maxsize=1)
def official_skills() -> tuple[Skill, ...]:
    """Return the official skills, by name. They are read once."""
    folder = DiskFolder(OFFICIAL_FOLDER)
    return tuple(
        read_skill(
            folder,
            path,
            skill_id=f"{OFFICIAL_ID_PREFIX}{name}",
            source=SkillSource.OFFICIAL,
            shown_path="official",
            disk=OFFICIAL_FOLDER,
        )
        for name, path in find_skills(folder).items()
    )
