"""Ports of skills: custom ones in the store, and those of folders."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.domain.ids import SkillId, SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.skill import (
    BrokenSkill,
    CustomSkill,
    NewSkill,
    Skill,
    SkillContent,
    SkillPatch,
    SkillVersion,
)


class SkillSet(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the custom skills of a space."""

    revision: int
    """Grows with every change of a skill."""
    locale: str | None = None
    """The language of the space: `locale` in its metadata."""


class Skills(Protocol):
    """Custom skills of a space. Each method is one transaction; every change adds a version and raises the revision."""

    async def create(self, space: SpaceId, new: NewSkill) -> CustomSkill:
        """Create a skill with its files; an id or a name that is taken is refused (`IdTaken`)."""

    async def get(self, space: SpaceId, skill: SkillId) -> CustomSkill:
        """Return a skill in its current version, or raise `NotFound`."""

    async def find(self, space: SpaceId, name: str) -> CustomSkill | None:
        """Return the skill with that name, or null."""

    async def page(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[CustomSkill]:
        """Return skills, newest first, disabled ones too."""

    async def enabled(self, space: SpaceId) -> list[CustomSkill]:
        """Return the enabled skills, by name."""

    async def state(self, space: SpaceId) -> SkillSet:
        """Return the revision of the skills, which every change raises, and the language of the space."""

    async def update(
        self,
        space: SpaceId,
        skill: SkillId,
        patch: SkillPatch,
        *,
        version: int | None = None,
        by: str | None = None,
    ) -> CustomSkill:
        """Add a version with the changes of `patch`; files stay. A name that is taken is refused (`IdTaken`).

        If another `version` is the current one: `VersionChanged`.
        """

    async def replace(
        self,
        space: SpaceId,
        skill: SkillId,
        content: SkillContent,
        contents: Mapping[str, bytes],
        *,
        version: int | None = None,
        by: str | None = None,
    ) -> CustomSkill:
        """Add a version with another content and other files, as `update` does."""

    async def delete(self, space: SpaceId, skill: SkillId, *, version: int | None = None) -> None:
        """Delete a skill with its versions and files; if another `version` is the current one: `VersionChanged`."""

    async def versions(self, space: SpaceId, skill: SkillId) -> list[SkillVersion]:
        """Return all versions of a skill, oldest first; the last is the current one."""

    async def version(self, space: SpaceId, skill: SkillId, version: int) -> SkillVersion:
        """Return one version of a skill, or raise `NotFound`."""

    async def file(self, space: SpaceId, skill: SkillId, path: str, *, version: int | None = None) -> bytes:
        """Return a file of a version of a skill, by default of the current one, or raise `NotFound`."""


class FolderSkills(Protocol):
    """Skills of the workspace and of its agents. A changed file takes effect for calls made a second later."""

    def of_agent(self, agent: str | None) -> Sequence[Skill]:
        """Return the skills in the folder of an agent and in the workspace; the same object until one changes.

        A skill with invalid files is left out, or stays as it was when it last was valid.
        """

    def broken(self) -> list[BrokenSkill]:
        """Return the skills with invalid files."""

    def file(self, skill: Skill, path: str) -> bytes:
        """Return a file of a skill, or raise `NotFound`."""
