"""A library of files and artifacts in memory."""

from collections.abc import Sequence

from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import AgentBundle, LiveRules
from holdfast.domain.artifact import Artifact, File
from holdfast.domain.commit import Lease
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ArtifactId, FileId, SkillId
from holdfast.domain.reminder import Reminder
from holdfast.domain.skill import Skill
from holdfast.ports.runtime import SkillListing, StoredFile


class FakeLibrary:
    """`Library` of one file and one artifact, or of nothing."""

    def __init__(self, *, file: File | None = None, artifact: Artifact | None = None) -> None:
        self._file = file
        self._artifact = artifact

    async def agent(self, lease: Lease) -> Agent:
        raise NotFound("there are no agents here")

    async def agents(self, lease: Lease) -> list[Agent]:
        return []

    async def rules(self, lease: Lease, agents: Sequence[str]) -> dict[str, LiveRules]:
        return {}

    async def bundle(self, lease: Lease) -> AgentBundle:
        raise NotFound("there are no versions here")

    async def bundle_files(self, lease: Lease, digests: Sequence[str]) -> dict[str, bytes]:
        raise NotFound("there are no versions here")

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        raise NotFound("there is no content here")

    async def file_info(self, lease: Lease, file: FileId) -> File:
        if self._file is None or self._file.id != file:
            raise NotFound(f"there is no file `{file}`")
        return self._file

    async def artifact(self, lease: Lease, artifact: ArtifactId) -> Artifact:
        if self._artifact is None or self._artifact.id != artifact:
            raise NotFound(f"there is no artifact `{artifact}`")
        return self._artifact

    async def reminders(self, lease: Lease) -> list[Reminder]:
        return []

    async def skills(self, lease: Lease) -> SkillListing:
        return SkillListing(revision="none", skills=())

    async def skill_version(self, lease: Lease, skill: SkillId, version: int) -> Skill:
        raise NotFound("there are no skills here")

    async def skill_file(self, lease: Lease, skill: SkillId, path: str, version: int | None = None) -> bytes:
        raise NotFound("there are no skills here")

    async def grants(self, lease: Lease) -> dict[str, list[str]]:
        return {}
