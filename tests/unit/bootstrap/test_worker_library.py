"""The library of a remote worker: files of skills are on its own machine, in the version that a run has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from holdfast.bootstrap.worker_library import WorkerLibrary
from holdfast.domain.commit import Lease
from holdfast.domain.ids import SkillId
from holdfast.domain.skill import Skill, SkillContent, SkillSource, describe_files
from holdfast.ports.runtime import SkillListing
from holdfast.skills.folder import as_skill
from holdfast.skills.official import official_skills
from holdfast.workspace.folder import Workspace
from tests.unit.tools.builtin.fake_library import FakeLibrary

LEASE: Any = SimpleNamespace(run=SimpleNamespace(agent_version="v1"))


def custom(version: int) -> Skill:
    files = describe_files({"references/a.md": b"%d" % version})
    content = SkillContent(name="ours", description="d", instructions=str(version))
    return as_skill(content, id=SkillId("ours"), source=SkillSource.SPACE, version=version, files=files)


class ServerLibrary(FakeLibrary):
    """The library of a server on another machine."""

    async def skills(self, lease: Lease) -> SkillListing:
        official = [replace(each, folder="/on/the/server") for each in official_skills()]
        return SkillListing(revision="r", skills=[custom(2), *official])

    async def skill_version(self, lease: Lease, skill: SkillId, version: int) -> Skill:
        return replace(custom(version), folder="/on/the/server")

    async def skill_file(self, lease: Lease, skill: SkillId, path: str, version: int | None = None) -> bytes:
        return b"%d" % (version or 0)


async def test_files_of_skills_are_on_the_machine_of_the_worker_in_their_version(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    library = WorkerLibrary(ServerLibrary(), Workspace(tmp_path))
    library._opened["v1"] = SimpleNamespace(skills=())  # type: ignore[assignment]
    listing = await library.skills(LEASE)
    assert [each.folder for each in listing.skills[1:]] == [each.folder for each in official_skills()]
    first = await library.skill_version(LEASE, SkillId("ours"), 1)
    assert [_text(skill, tmp_path) for skill in (listing.skills[0], first)] == ["2", "1"]


def _text(skill: Skill, folder: Path) -> str:
    assert skill.folder is not None and Path(skill.folder).is_relative_to(folder)
    return Path(skill.folder, "references/a.md").read_text()
