"""Skills of a workspace: `skills/` for every agent, and `agents/<name>/skills/` for one.

Files are checked for changes when skills are requested, at most once a second, in the caller's thread.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from holdfast.domain.errors import NotFound
from holdfast.domain.skill import BrokenSkill, Skill, SkillSource
from holdfast.skills.folder import DiskFolder, find_skills, folder_skill_name, read_skill, read_skill_file
from holdfast.skills.official import official_skills
from holdfast.skills.skill_md import SKILL_FILE_NAME
from holdfast.workspace.folder import Workspace
from holdfast.workspace.reload import Monotonic, PollThrottle, WatchedFiles
from holdfast.workspace.text_files import file_name, printable

SKILLS_FOLDER: Final = "skills"
SKILL_POLL_SECONDS: Final = 1.0


class WorkspaceSkills:
    """`FolderSkills` of a workspace."""

    def __init__(self, workspace: Workspace, *, monotonic: Monotonic = time.monotonic) -> None:
        self._workspace = workspace
        self._monotonic = monotonic
        self._shared = _SkillsOfFolder(workspace, workspace.skills, source=SkillSource.WORKSPACE, monotonic=monotonic)
        self._of_agents: dict[str, _SkillsOfFolder] = {}
        self._combined: dict[str | None, tuple[Sequence[Skill], Sequence[Skill], tuple[Skill, ...]]] = {}

    def of_agent(self, agent: str | None) -> Sequence[Skill]:
        """Return the skills of an agent and of the workspace."""
        shared = self._shared.get()
        own = () if agent is None else self._folder_of(agent).get()
        cached = self._combined.get(agent)
        if cached is None or cached[0] is not shared or cached[1] is not own:
            cached = self._combined[agent] = (shared, own, (*own, *shared))
        return cached[2]

    def broken(self) -> list[BrokenSkill]:
        """Return the skills with invalid files."""
        agents = sorted(path.parent.name for path in self._workspace.agents.glob(f"*/{SKILLS_FOLDER}"))
        folders = [self._shared, *map(self._folder_of, agents)]
        return [broken for folder in folders for broken in folder.broken()]

    def file(self, skill: Skill, path: str) -> bytes:
        """Return a file of a skill."""
        if skill.folder is None:
            raise NotFound(f"skill `{skill.name}` has no file `{path}`", path=path)
        return read_skill_file(DiskFolder(Path(skill.folder)), "", path)

    def _folder_of(self, agent: str) -> "_SkillsOfFolder":
        folder = self._of_agents.get(agent)
        if folder is None:
            folder = self._of_agents[agent] = _SkillsOfFolder(
                self._workspace,
                self._workspace.agents / agent / SKILLS_FOLDER,
                source=SkillSource.AGENT,
                monotonic=self._monotonic,
            )
        return folder


class _SkillsOfFolder:
    def __init__(self, workspace: Workspace, path: Path, *, source: SkillSource, monotonic: Monotonic) -> None:
        self._folder = DiskFolder(path)
        self._source = source
        self._shown_path = file_name(path, root=workspace.path)
        self._throttle = PollThrottle(monotonic, seconds=SKILL_POLL_SECONDS)
        self._files: dict[str, WatchedFiles[Skill]] = {}
        self._skills: tuple[Skill, ...] = ()

    def get(self) -> tuple[Skill, ...]:
        """Return the skills; the same object until one changes."""
        self._poll()
        return self._skills

    def broken(self) -> list[BrokenSkill]:
        """Return the skills with invalid files."""
        self._poll()
        return [
            BrokenSkill(
                name=printable(folder_skill_name(path)),
                source=self._source,
                file=printable(f"{self._shown_path}/{path}"),
                message=files.error.message,
            )
            for path, files in self._files.items()
            if files.error is not None
        ]

    def _poll(self) -> None:
        at = self._throttle.due()
        if at is None:
            return
        self._files = {
            path: self._files.get(path) or WatchedFiles(partial(self._read, path), files=partial(self._watched, path))
            for path in find_skills(self._folder).values()
        }
        for files in self._files.values():
            files.poll(at=at)
        skills = tuple(files.value for files in self._files.values() if files.value is not None)
        if skills != self._skills:
            self._skills = skills

    def _read(self, path: str) -> Skill:
        name = folder_skill_name(path)
        return read_skill(
            self._folder,
            path,
            skill_id=f"{self._shown_path.removesuffix(f'/{SKILLS_FOLDER}')}:{name}",
            source=self._source,
            shown_path=self._shown_path,
            disk=self._folder.path,
        )

    def _watched(self, path: str) -> list[Path]:
        file = self._folder.path / path
        if file.name != SKILL_FILE_NAME:
            return [file]
        return [file, *(file.parent / entry.name for entry in self._folder.list(path.rpartition("/")[0]))]


class KnownSkills(Collection[str]):
    """The names that `skills` in an agent.json may use: of official skills, of the workspace and of the agent itself.

    Broken skills count: they do not break the agents that name them.
    """

    def __init__(self, workspace: Workspace, agent: str) -> None:
        self._folders = [DiskFolder(workspace.agents / agent / SKILLS_FOLDER), DiskFolder(workspace.skills)]

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        yield from (skill.name for skill in official_skills())
        for folder in self._folders:
            yield from find_skills(folder)

    def __len__(self) -> int:
        return sum(1 for _ in self)
