"""The catalog of a run: the skills of its agent and space, and those of its working folder if the settings trust it."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, NotFound
from holdfast.domain.ids import SkillId
from holdfast.domain.skill import Skill, SkillSource
from holdfast.domain.working_folder import working_folder
from holdfast.domain.working_path import parse_working_path
from holdfast.ports.runtime import Library
from holdfast.ports.tools import EntryKind, WorkingFolder, WorkingFolders
from holdfast.skills.catalog import SkillCatalog
from holdfast.skills.folder import MAX_FOLDER_ENTRIES, Entry, find_skills, read_skill, read_skill_file
from holdfast.tools.thread_pool import run_in_thread

WORKING_FOLDER_SKILLS: Final = ".agents/skills"
MAX_CACHED_CATALOGS: Final = 256

_log: Final = logging.getLogger("holdfast.skills")


class RunCatalog(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The catalog of a run, and the language of its space."""

    catalog: SkillCatalog
    locale: str | None = None


class RunCatalogs:
    """Makes the catalogs of runs, and keeps each until a skill changes."""

    def __init__(self, library: Library, folders: WorkingFolders | None = None) -> None:
        self._library = library
        self._folders = folders
        self._cache: dict[str, SkillCatalog] = {}
        """Catalogs by the revision of their listing."""

    async def of_run(self, lease: Lease, agent: Agent, values: Mapping[str, Json]) -> RunCatalog:
        """Return the catalog of a run."""
        listing = await self._library.skills(lease)
        found = await self._working_folder_skills(lease, agent, values)
        if found:
            return RunCatalog(catalog=SkillCatalog([*listing.skills, *found]), locale=listing.locale)
        catalog = self._cache.get(listing.revision)
        if catalog is None:
            if len(self._cache) >= MAX_CACHED_CATALOGS:
                self._cache.clear()
            catalog = self._cache[listing.revision] = SkillCatalog(listing.skills)
        return RunCatalog(catalog=catalog, locale=listing.locale)

    async def version(self, lease: Lease, skill: SkillId, version: int) -> Skill:
        """Return a custom skill as of a version, or raise `NotFound`."""
        return await self._library.skill_version(lease, skill, version)

    async def file(self, lease: Lease, agent: Agent, values: Mapping[str, Json], skill: Skill, path: str) -> bytes:
        """Return a file of a skill, or raise `NotFound`."""
        if path not in {file.path for file in skill.files}:
            raise NotFound(f"skill `{skill.name}` has no file `{path}`", path=path)
        if skill.source is not SkillSource.FOLDER:
            version = skill.version if skill.source is SkillSource.SPACE else None
            return await self._library.skill_file(lease, skill.id, path, version)
        folders, name = self._folders, working_folder(lease.run, agent, values)
        assert folders is not None

        def read() -> bytes:
            with folders.open(name) as opened:
                return read_skill_file(_OpenFolder(opened), f"{WORKING_FOLDER_SKILLS}/{skill.name}", path)

        return await run_in_thread(lambda _: read())

    async def _working_folder_skills(self, lease: Lease, agent: Agent, values: Mapping[str, Json]) -> list[Skill]:
        if not agent.skill_settings.working_folders or self._folders is None:
            return []
        folders, name = self._folders, working_folder(lease.run, agent, values)

        def read() -> list[Skill]:
            with folders.open(name) as opened:
                return _read_all(_OpenFolder(opened))

        return await run_in_thread(lambda _: read())


def _read_all(folder: "_OpenFolder") -> list[Skill]:
    skills = []
    for name, path in find_skills(folder, WORKING_FOLDER_SKILLS).items():
        try:
            skills.append(
                read_skill(folder, path, skill_id=f"folder:{name}", source=SkillSource.FOLDER, shown_path=".")
            )
        except HoldfastError as error:
            _log.warning("%s (this skill of a working folder cannot be used)", error.message)
    return skills


class _OpenFolder:
    """`SkillFolder` in an open working folder, whose files anybody may have written."""

    def __init__(self, folder: WorkingFolder) -> None:
        self._folder = folder

    def read(self, path: str, *, max_bytes: int) -> bytes:
        return self._folder.read(parse_working_path(path), max_bytes=max_bytes).content

    def list(self, path: str) -> Sequence[Entry]:
        with suppress(NotFound, Invalid):
            listing = self._folder.list(parse_working_path(path), max_entries=MAX_FOLDER_ENTRIES)
            return [
                Entry(entry.name, is_folder=entry.kind is EntryKind.FOLDER, size=entry.size)
                for entry in listing.entries
                if entry.kind in (EntryKind.FILE, EntryKind.FOLDER)
            ]
        return []
