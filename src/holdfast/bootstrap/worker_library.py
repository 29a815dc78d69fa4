"""The library of a worker without a shared disk: bundles and files of skills are kept in the worker's own folder.

A version is received once, by its digest: each file is checked before it is written, and again when a process opens it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import AgentBundle, BundleFile, check_bundle
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import SkillId
from holdfast.domain.skill import Skill, SkillSource
from holdfast.ports.runtime import Library, SkillListing
from holdfast.skills.folder import write_skill_files
from holdfast.skills.official import official_skills
from holdfast.tools.thread_pool import run_in_thread
from holdfast.workspace.bundles import BundleFolder
from holdfast.workspace.folder import Workspace
from holdfast.workspace.versions import OpenBundle, open_bundle

MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the files that one call asks for, unless one file is larger."""
MAX_KEPT_LISTINGS: Final = 256


class WorkerLibrary:
    """`Library` over another one, with the files of agents and skills in the folder of a worker."""

    def __init__(self, library: Library, workspace: Workspace) -> None:
        self._library = library
        self._folder = BundleFolder(workspace.bundles)
        self._scripts = workspace.data_folder / "skills"
        self._opened: dict[str, OpenBundle] = {}
        self._listings: dict[tuple[str, str], SkillListing] = {}
        """Listings with local folders, by version and revision."""
        self._opening = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        """Return the other methods of the library."""
        return getattr(self._library, name)

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run, with its folder on this machine."""
        agent = await self._library.agent(lease)
        if lease.run.agent_version is None:
            return agent
        return replace(agent, folder=(await self._open(lease, lease.run.agent_version)).agent.folder)

    async def skills(self, lease: Lease) -> SkillListing:
        """Return the skills of the run, with their folders on this machine."""
        listing, version = await self._library.skills(lease), lease.run.agent_version
        if version is None:
            return listing
        key = version, listing.revision
        if key not in self._listings:
            own = [*official_skills(), *(await self._open(lease, version)).skills]
            folders = {(skill.id, skill.digest): skill.folder for skill in own}
            skills = []
            for skill in listing.skills:
                folder = folders.get((skill.id, skill.digest))
                if skill.source is SkillSource.SPACE and skill.files:
                    folder = await self._write_skill(lease, skill)
                skills.append(replace(skill, folder=folder))
            if len(self._listings) >= MAX_KEPT_LISTINGS:
                self._listings.clear()
            self._listings[key] = replace(listing, skills=skills)
        return self._listings[key]

    async def skill_version(self, lease: Lease, skill: SkillId, version: int) -> Skill:
        """Return a custom skill as of a version, with its folder on this machine."""
        found = await self._library.skill_version(lease, skill, version)
        return replace(found, folder=await self._write_skill(lease, found)) if found.files else found

    async def _open(self, lease: Lease, digest: str) -> OpenBundle:
        """Return a version on disk, received from the control plane if it is not there."""
        if digest in self._opened:
            return self._opened[digest]
        async with self._opening:
            if digest not in self._opened:
                bundle = await run_in_thread(lambda _: self._folder.find(digest))
                bundle = bundle or await self._receive(lease, digest)
                self._opened[digest] = await run_in_thread(lambda _: open_bundle(self._folder, bundle))
        return self._opened[digest]

    async def _receive(self, lease: Lease, digest: str) -> AgentBundle:
        bundle = await self._library.bundle(lease)
        if bundle.digest != digest:
            raise Invalid(f"the control plane sent another version than `{digest}`", field="digest")
        check_bundle(bundle)
        contents: dict[str, bytes] = {}
        for batch in _batches(await run_in_thread(lambda _: self._folder.missing(bundle))):
            contents |= await self._library.bundle_files(lease, [file.digest for file in batch])
        await run_in_thread(lambda _: self._folder.write(bundle, contents))  # it checks each content
        return bundle

    async def _write_skill(self, lease: Lease, skill: Skill) -> str:
        """Return the folder with the files of a custom skill of the space."""
        folder = self._scripts / skill.digest
        if not await run_in_thread(lambda _: folder.is_dir()):
            contents = {
                file.path: await self._library.skill_file(lease, skill.id, file.path, skill.version)
                for file in skill.files
            }
            await run_in_thread(lambda _: write_skill_files(folder, contents))
        return str(folder)


def _batches(files: Sequence[BundleFile]) -> Iterator[list[BundleFile]]:
    batch: list[BundleFile] = []
    for file in files:
        if batch and sum(each.size for each in batch) + file.size > MAX_BATCH_BYTES:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch
