"""Skills for agents and people: the shelf that collects them from all sources, and commands for custom ones."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import NotFound
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import RunId, SkillId, SpaceId
from holdfast.domain.mcp_server import server_tool_prefix
from holdfast.domain.run_skills import ActiveSkill, ContractOutcome, Evidence, LeftOutSkill, read_run_skills
from holdfast.domain.skill import (
    BrokenSkill,
    CustomSkill,
    ExecutionContract,
    NewSkill,
    Skill,
    SkillFile,
    SkillPatch,
    SkillSource,
    check_skill_content,
)
from holdfast.ports.log import Values
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import Runs
from holdfast.ports.runtime import SkillListing
from holdfast.ports.skills import FolderSkills, Skills
from holdfast.ports.workspace import Agents
from holdfast.skills.archive import pack_skill, unpack_skill
from holdfast.skills.catalog import Availability, CatalogEntry, SkillCatalog
from holdfast.skills.folder import as_skill, check_file_path, write_skill_files
from holdfast.skills.locale import resolve_locale
from holdfast.skills.official import official_skills

MAX_CACHED_LISTINGS: Final = 1_024


class SkillShelf:
    """Collects the skills that an agent may use in a space, and keeps them until one changes."""

    def __init__(
        self,
        folders: FolderSkills,
        skills: Skills,
        *,
        official: Callable[[], Sequence[Skill]] = official_skills,
        scripts_folder: Path | None = None,
    ) -> None:
        """Write the files of custom skills into `scripts_folder`, so that commands can read them."""
        self.folders = folders
        self._skills = skills
        self._official = official
        self._scripts_folder = scripts_folder
        self._custom: dict[SpaceId, tuple[int, tuple[Skill, ...]]] = {}
        self._listings: dict[tuple[SpaceId, str | None], tuple[Sequence[Skill], Sequence[Skill], SkillListing]] = {}

    async def listing(self, space: SpaceId, agent: str | None, *, own: Sequence[Skill] | None = None) -> SkillListing:
        """Return the skills of all sources; the same listing until one changes.

        `own` are the skills of folders as of the version of a run, instead of the present ones.
        """
        state = await self._skills.state(space)
        own = self.folders.of_agent(agent) if own is None else own
        custom = await self._custom_skills(space, state.revision)
        cached = self._listings.get((space, agent))
        if cached is not None and cached[0] is own and cached[1] is custom and cached[2].locale == state.locale:
            return cached[2]
        if len(self._listings) >= MAX_CACHED_LISTINGS:
            self._listings.clear()
        skills = (*own, *custom, *self._official())
        digests = msgspec.json.encode([(skill.id, skill.digest) for skill in skills])
        listing = SkillListing(revision=sha256(digests).hexdigest(), skills=skills, locale=state.locale)
        self._listings[space, agent] = (own, custom, listing)
        return listing

    async def file(
        self, space: SpaceId, agent: str | None, skill: SkillId, path: str, *, own: Sequence[Skill] | None = None
    ) -> bytes:
        """Return a file of a skill, or raise `NotFound`."""
        check_file_path(path)
        listing = await self.listing(space, agent, own=own)
        found = next((each for each in listing.skills if each.id == skill), None)
        if found is None:
            raise NotFound(f"there is no skill `{skill}`", id=skill)
        if found.source is SkillSource.SPACE:
            return await self._skills.file(space, skill, path)
        return await asyncio.to_thread(self.folders.file, found, path)

    async def version(self, space: SpaceId, skill: SkillId, version: int) -> Skill:
        """Return a custom skill as of a version, or raise `NotFound`."""
        found = await self._skills.version(space, skill, version)
        made = as_skill(found.content, id=skill, source=SkillSource.SPACE, version=version, files=found.files)
        return await self._with_folder(space, made)

    async def custom_file(self, space: SpaceId, skill: SkillId, path: str, version: int) -> bytes:
        """Return a file of a custom skill as of a version, or raise `NotFound`."""
        return await self._skills.file(space, skill, check_file_path(path), version=version)

    async def _custom_skills(self, space: SpaceId, revision: int) -> tuple[Skill, ...]:
        cached = self._custom.get(space)
        if cached is None or cached[0] != revision:
            if len(self._custom) >= MAX_CACHED_LISTINGS:
                self._custom.clear()
            found = await self._skills.enabled(space) if revision else []
            skills = [
                as_skill(each, id=each.id, source=SkillSource.SPACE, version=each.version, files=each.files)
                for each in found
            ]
            cached = self._custom[space] = (revision, tuple([await self._with_folder(space, each) for each in skills]))
        return cached[1]

    async def _with_folder(self, space: SpaceId, skill: Skill) -> Skill:
        """Return a custom skill; one with files gets a folder on this machine."""
        if not skill.files or self._scripts_folder is None:
            return skill
        folder = self._scripts_folder / skill.digest
        if not folder.is_dir():
            contents = {
                file.path: await self._skills.file(space, skill.id, file.path, version=skill.version)
                for file in skill.files
            }
            await asyncio.to_thread(write_skill_files, folder, contents)
        return replace(skill, folder=str(folder))


class CatalogSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill in the catalog of an agent and a space, without its instructions."""

    id: SkillId
    name: str
    source: SkillSource
    description: str
    triggers: list[str]
    tags: list[str]
    category: str
    priority: int
    version: int
    contract: ExecutionContract
    allowed_tools: list[str] | None
    locales: list[str]
    files: list[SkillFile]
    availability: Availability
    availability_reasons: list[str]
    shadowed_by: SkillSource | None
    """The source of the skill with the same name that is used instead."""
    warnings: list[str]


class SkillCatalogView(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of all sources by name, and those whose files have errors."""

    locale: str
    items: list[CatalogSkill]
    broken: list[BrokenSkill]


class RunSkillsView(msgspec.Struct, frozen=True, kw_only=True):
    """What a run chose and why, and what became of the contracts."""

    run_id: RunId
    locale: str | None
    """Null if the run has not chosen skills."""
    active: list[ActiveSkill]
    left_out: list[LeftOutSkill]
    produced: list[Evidence]
    contract_reminders: int
    contracts: list[ContractOutcome]
    """Empty until the run has ended."""


class ImportedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import."""

    skill: CustomSkill
    created: bool
    """False if an existing skill got a new version."""
    warnings: list[str]


class _SkillName(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a keyed request; the skill itself is read again."""

    id: SkillId
    created: bool = True


class SkillControl:
    """Commands and queries for skills."""

    def __init__(
        self,
        *,
        skills: Skills,
        shelf: SkillShelf,
        agents: Agents,
        requests: KeyedRequests,
        runs: Runs,
        values: Values,
        principal: str | None = None,
    ) -> None:
        """Record `principal` as the author of changes."""
        self._skills = skills
        self._shelf = shelf
        self._agents = agents
        self._requests = requests
        self._runs = runs
        self._values = values
        self._principal = principal

    async def create(
        self, space: SpaceId, new: NewSkill, *, request: KeyedRequest | None = None
    ) -> KeyedResult[CustomSkill]:
        """Create a custom skill."""
        made = replace(new, created_by=self._principal)
        check_skill_content(made.content)

        async def create(ports: RequestPorts) -> _SkillName:
            return _SkillName(id=(await ports.skills.create(space, made)).id)

        done = await self._requests.once(space, request, kind=_SkillName, create=create)
        return KeyedResult(value=await self._skills.get(space, done.value.id), replayed=done.replayed)

    async def update(self, space: SpaceId, skill: SkillId, patch: SkillPatch, *, version: int | None) -> CustomSkill:
        """Add a version with the changes of `patch`."""
        return await self._skills.update(space, skill, patch, version=version, by=self._principal)

    async def set_enabled(self, space: SpaceId, skill: SkillId, *, enabled: bool) -> CustomSkill:
        """Enable or disable a custom skill; one that is so already stays as it is."""
        found = await self._skills.get(space, skill)
        if found.enabled == enabled:
            return found
        return await self._skills.update(space, skill, SkillPatch(enabled=enabled), by=self._principal)

    async def unpack(
        self, space: SpaceId, archive: bytes, *, request: KeyedRequest | None = None
    ) -> KeyedResult[ImportedSkill]:
        """Import a skill from an archive; a skill of the same name gets a new version."""
        found = await asyncio.to_thread(unpack_skill, archive)
        principal = self._principal

        async def create(ports: RequestPorts) -> _SkillName:
            existing = await ports.skills.find(space, found.content.name)
            if existing is None:
                new = NewSkill(content=found.content, contents=found.contents, created_by=principal)
                return _SkillName(id=(await ports.skills.create(space, new)).id)
            changed = await ports.skills.replace(space, existing.id, found.content, found.contents, by=principal)
            return _SkillName(id=changed.id, created=False)

        done = await self._requests.once(space, request, kind=_SkillName, create=create)
        skill = await self._skills.get(space, done.value.id)
        result = ImportedSkill(skill=skill, created=done.value.created, warnings=found.warnings)
        return KeyedResult(value=result, replayed=done.replayed)

    async def pack(self, space: SpaceId, skill: SkillId) -> tuple[str, bytes]:
        """Return the name of a custom skill, and an archive with its folder."""
        found = await self._skills.get(space, skill)
        contents = {file.path: await self._skills.file(space, skill, file.path) for file in found.files}
        return found.name, await asyncio.to_thread(pack_skill, found, contents)

    async def catalog(self, space: SpaceId, *, agent: str | None, locale: str | None) -> SkillCatalogView:
        """Return the skills of all sources for an agent, or for none; tools of MCP servers count as they are listed."""
        found = None if agent is None else await self._agents.of_space(space, agent)
        listing = await self._shelf.listing(space, agent)
        language = resolve_locale(thread=locale, space=listing.locale)
        patterns = None if found is None else [*found.tools, *(server_tool_prefix(each) for each in found.mcp_servers)]
        entries = SkillCatalog(listing.skills).entries(_AnyTool() if patterns is None else _PatternTools(patterns))
        shared = {SkillSource.WORKSPACE, SkillSource.AGENT}
        prefix = None if agent is None else f"agents/{agent}/"
        broken = [
            each
            for each in self._shelf.folders.broken()
            if each.source in shared and (each.source is SkillSource.WORKSPACE or (prefix or "agents/") in each.file)
        ]
        return SkillCatalogView(
            locale=language, items=[_catalog_skill(each, language) for each in entries], broken=broken
        )

    async def of_run(self, space: SpaceId, run: RunId) -> RunSkillsView:
        """Return the skills of a run."""
        await self._runs.get(space, run)
        skills = read_run_skills(await self._values.of_run(space, run))
        if skills is None or skills.run_id != run:
            return RunSkillsView(
                run_id=run, locale=None, active=[], left_out=[], produced=[], contract_reminders=0, contracts=[]
            )
        return RunSkillsView(
            run_id=run,
            locale=skills.locale,
            active=skills.active,
            left_out=skills.left_out,
            produced=skills.produced,
            contract_reminders=skills.contract_reminders,
            contracts=skills.contracts,
        )


class _AnyTool(Collection[str]):
    """Every tool, for a catalog without an agent."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _PatternTools(Collection[str]):
    """The tools that an agent lists: names, and prefixes such as `plan_*`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [pattern.rstrip("*") for pattern in patterns]
        self._names = {pattern for pattern in patterns if not pattern.endswith("*")}
        self._prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))

    def __contains__(self, name: object) -> bool:
        return name in self._names or (
            isinstance(name, str) and bool(self._prefixes) and name.startswith(self._prefixes)
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)


def _catalog_skill(entry: CatalogEntry, locale: str) -> CatalogSkill:
    skill = entry.skill
    text = skill.in_locale(locale)
    return CatalogSkill(
        id=skill.id,
        name=skill.name,
        source=skill.source,
        description=text.description,
        triggers=text.triggers,
        tags=skill.tags,
        category=skill.category,
        priority=skill.priority,
        version=skill.version,
        contract=skill.contract,
        allowed_tools=skill.allowed_tools,
        locales=sorted({*skill.translations, *([] if skill.locale is None else [skill.locale])}),
        files=skill.files,
        availability=entry.availability,
        availability_reasons=entry.reasons,
        shadowed_by=entry.shadowed_by,
        warnings=skill.warnings,
    )
