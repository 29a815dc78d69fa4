"""Bundles of agents: collected from the workspace, and kept on disk, where each is a small workspace of its own.

A tool or skill that cannot be part of a bundle (a link in it, too many files) is left out, and used as it is on disk.
"""

import ast
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import SCRIPT_PREFIX, Agent
from holdfast.domain.agent_version import (
    MAX_BUNDLE_BYTES,
    MAX_BUNDLE_FILES,
    AgentBundle,
    BundleFile,
    LeftOutPath,
    NewAgentVersion,
    check_bundle,
    check_content,
    make_bundle,
)
from holdfast.domain.errors import HoldfastError, Invalid, Unavailable
from holdfast.domain.skill import SkillSource
from holdfast.skills.folder import DiskFolder, find_skills, folder_skill_name, read_skill
from holdfast.skills.skill_md import SKILL_FILE_NAME
from holdfast.tools.builtin.catalog import BUILTIN_NAMES
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.agents import AgentSource, make_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.function_tools import function_files, functions_in
from holdfast.workspace.reload import POLL_INTERVAL_SECONDS, Monotonic
from holdfast.workspace.skills import SKILLS_FOLDER
from holdfast.workspace.tools import read_tool, tool_folders

MAX_UNIT_FILES: Final = 1_000
"""Files of one tool or skill; larger ones are left out."""
MAX_UNIT_BYTES: Final = 8 * 1024 * 1024
MAX_SCAN_SHARE: Final = 0.02
"""The share of the time that looking for changed files may take."""

SKILL_TOOLS: Final = tuple(name for name in BUILTIN_NAMES if name.startswith("skill_"))
"""Tools that find skills which the agent does not name."""
MANIFEST_FILE_NAME: Final = "bundle.json"
_IGNORED: Final = frozenset({".git", ".DS_Store", "__pycache__"})


class _Stamp(NamedTuple):
    """A file as it was last seen."""

    path: str
    mtime_ns: int
    size: int
    inode: int
    mode: int


class _Unit(NamedTuple):
    """A tool, skill or script: files that are in a bundle together or not at all."""

    path: str
    files: tuple[_Stamp, ...]
    problem: str | None


class _Made(NamedTuple):
    """A version, with what it was made from and the scan that found that."""

    source: AgentSource
    units: list[_Unit]
    version: NewAgentVersion
    scan: int


class BundleCollector:
    """Makes the bundles of agents from the files of a workspace, and keeps each until one of its files changes."""

    def __init__(self, workspace: Workspace, kept: "BundleFolder", *, monotonic: Monotonic = time.monotonic) -> None:
        """`kept` has the earlier versions."""
        self._workspace = workspace
        self._kept = kept
        self._monotonic = monotonic
        self._scan, self._scanned_at, self._spent = 0, float("-inf"), 0.0
        """The number and the time of the last scan, and how long it took."""
        self._units: dict[str, _Unit] = {}
        """Units as of the last scan, by path."""
        self._made: dict[str, _Made] = {}

    def of(self, source: AgentSource) -> NewAgentVersion:
        """Return the version that the files of an agent make now; the same object until one of them changes."""
        now = self._monotonic()
        if now - self._scanned_at >= max(POLL_INTERVAL_SECONDS, self._spent / MAX_SCAN_SHARE):
            self._scan, self._scanned_at, self._spent = self._scan + 1, now, 0.0
            self._units.clear()
        made = self._made.get(source.agent.name)
        if made is not None and made.source is source and made.scan == self._scan:
            return made.version
        units = [self._unit(path) for path in self._unit_paths(source.agent) if path not in source.files]
        if made is None or made.source is not source or made.units != units:
            version = self._make(source, units, None if made is None else made.version)
        else:
            version = made.version
        self._made[source.agent.name] = _Made(source, units, version, self._scan)
        self._spent += self._monotonic() - now
        return version

    def refresh(self) -> None:
        """Look at the files again with the next call."""
        self._scanned_at = float("-inf")

    def release(self, version: NewAgentVersion) -> None:
        """Forget the contents of a version, which are on disk now."""
        made = self._made.get(version.bundle.agent)
        if made is not None and made.version is version:
            self._made[version.bundle.agent] = made._replace(version=replace(version, contents={}))

    def _unit_paths(self, agent: Agent) -> Iterator[str]:
        """Yield the paths of what an agent may use beside its own files."""
        folder = f"agents/{agent.name}"
        base = "" if agent.folder == str(self._workspace.path) else f"{folder}/"
        models = [*agent.models]
        if agent.memory is not None and agent.memory.distillation is not None:
            models.append(agent.memory.distillation.model or "")
        for script in {model.removeprefix(SCRIPT_PREFIX) for model in models if model.startswith(SCRIPT_PREFIX)}:
            if not script.startswith("/") and ".." not in script.split("/"):
                yield os.path.normpath(f"{base}{script}")
        every_skill = isinstance(agent.skills, str) or any(_is_named(name, agent.tools) for name in SKILL_TOOLS)
        if every_skill or agent.skills:
            for path in (f"{folder}/{SKILLS_FOLDER}", SKILLS_FOLDER):
                for name, found in find_skills(DiskFolder(self._workspace.path / path)).items():
                    if every_skill or name in agent.skills:
                        yield f"{path}/{found.removesuffix(f'/{SKILL_FILE_NAME}')}"
        if agent.tools:
            yield from (f"tools/{name}" for name in tool_folders(self._workspace) if _is_named(name, agent.tools))
            sources = function_files(self._workspace)
            names = (name for file in sources for name in (file.stem, *functions_in(file)))
            if any(_is_named(name, agent.tools) for name in names):
                yield from (f"tools/{file.name}" for file in sources)  # a function may import the other files

    def _unit(self, path: str) -> _Unit:
        unit = self._units.get(path)
        if unit is None:
            unit = self._units[path] = _scan(self._workspace.path, path)
        return unit

    def _make(self, source: AgentSource, units: Sequence[_Unit], before: NewAgentVersion | None) -> NewAgentVersion:
        """Read the files; a tool or skill that is invalid now stays as it was in the version before."""
        agent, root = source.agent, self._workspace.path
        contents, executable = dict(source.files), set[str]()
        left_out = [LeftOutPath(path=unit.path, reason=unit.problem) for unit in units if unit.problem is not None]
        size = sum(map(len, contents.values()))
        for unit in units:
            if unit.problem is not None:
                continue
            try:
                found, marked = self._read(unit, before)
            except OSError as exc:
                left_out.append(LeftOutPath(path=unit.path, reason=f"cannot be read: {exc.strerror or exc}"))
                continue
            size += sum(map(len, found.values()))
            if size > MAX_BUNDLE_BYTES or len(contents) + len(found) > MAX_BUNDLE_FILES:
                size -= sum(map(len, found.values()))
                reason = f"the version would have more than {MAX_BUNDLE_FILES} files or {MAX_BUNDLE_BYTES} bytes"
                left_out.append(LeftOutPath(path=unit.path, reason=reason))
                continue
            contents |= found
            executable |= marked
        folder = "" if agent.folder == str(root) else f"agents/{agent.name}"
        return make_bundle(agent.name, contents, folder=folder, executable=frozenset(executable), left_out=left_out)

    def _read(self, unit: _Unit, before: NewAgentVersion | None) -> tuple[dict[str, bytes], set[str]]:
        """Return the files of a unit, and which of them can be executed."""
        if before is not None and not self._is_valid(unit.path):
            root = self._kept.path_of(before.digest)
            kept = [file for file in before.bundle.files if _is_below(file.path, unit.path)]
            contents = {file.path: before.contents.get(file.digest) or (root / file.path).read_bytes() for file in kept}
            return contents, {file.path for file in kept if file.executable}
        contents = {file.path: (self._workspace.path / file.path).read_bytes() for file in unit.files}
        return contents, {file.path for file in unit.files if file.mode & stat.S_IXUSR}

    def _is_valid(self, path: str) -> bool:
        """Return whether a tool or skill can be used as it is now."""
        root, (folder, _, name) = self._workspace.path, path.rpartition("/")
        try:
            if folder == "tools" and name.endswith(".py"):
                ast.parse((root / path).read_bytes())
            elif folder == "tools":
                read_tool(self._workspace, name)
            elif folder == SKILLS_FOLDER or folder.endswith(f"/{SKILLS_FOLDER}"):
                text = name if name.endswith(".md") else f"{name}/{SKILL_FILE_NAME}"
                read_skill(
                    DiskFolder(root / folder),
                    text,
                    skill_id=folder_skill_name(text),
                    source=SkillSource.WORKSPACE,
                    shown_path=folder,
                )
        except (HoldfastError, OSError, SyntaxError, ValueError, RecursionError):
            return False
        return True


def _is_named(tool: str, patterns: Sequence[str]) -> bool:
    return any(tool.startswith(each[:-1]) if each.endswith("*") else tool == each for each in patterns)


def _is_below(path: str, unit: str) -> bool:
    return path == unit or path.startswith(f"{unit}/")


def _scan(root: Path, path: str) -> _Unit:
    """Return the files of a tool, skill or script, as far as it can be in a bundle."""
    files: list[_Stamp] = []
    size, queue, problem = 0, [path], None
    while queue and problem is None:
        each = queue.pop()
        try:
            found = os.lstat(root / each)
            if stat.S_ISDIR(found.st_mode):
                queue += [f"{each}/{name}" for name in os.listdir(root / each) if _belongs(name)]
                continue
        except OSError as exc:
            problem = f"cannot be read: {exc.strerror or exc}"
            break
        if not stat.S_ISREG(found.st_mode):
            problem = f"`{each}` is a link or no regular file"
        files.append(_Stamp(each, found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode))
        size += found.st_size
        if len(files) > MAX_UNIT_FILES or size > MAX_UNIT_BYTES:
            problem = f"has more than {MAX_UNIT_FILES} files or {MAX_UNIT_BYTES} bytes"
    return _Unit(path, tuple(sorted(files)), problem)


def _belongs(name: str) -> bool:
    return name not in _IGNORED and not name.endswith(".pyc")


class BundleFolder:
    """Bundles on disk, by digest. Equal files are one file, so that many versions take little more room than one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blobs = path / "files"

    def path_of(self, digest: str) -> Path:
        """Return the folder of a bundle, which is a workspace."""
        return self._path / digest

    def find(self, digest: str) -> AgentBundle | None:
        """Return a bundle that is on disk with every file as it was published, else null."""
        folder = self.path_of(digest)
        try:
            bundle = msgspec.json.decode((folder / MANIFEST_FILE_NAME).read_bytes(), type=AgentBundle)
        except (OSError, msgspec.DecodeError):
            return None
        intact = bundle.digest == digest and all(_has_digest(folder / file.path, file.digest) for file in bundle.files)
        return bundle if intact else None

    def missing(self, bundle: AgentBundle) -> list[BundleFile]:
        """Return the files of a bundle that no bundle on disk has, each content once."""
        files = {file.digest: file for file in bundle.files}.values()
        return [file for file in files if not _has_digest(self._blob(file), file.digest)]

    def write(self, bundle: AgentBundle, contents: Mapping[str, bytes]) -> None:
        """Write a bundle; it appears complete or not at all. Contents that are on disk need not be given."""
        check_bundle(bundle)
        if self.find(bundle.digest) is not None:
            return
        self._blobs.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=self._path, prefix=".new-"))
        try:
            (made / "agents").mkdir()
            (made / MANIFEST_FILE_NAME).write_bytes(msgspec.json.encode(bundle))
            for file in bundle.files:
                blob, target = self._blob(file), made / file.path
                if not _has_digest(blob, file.digest):
                    content = check_content(file, contents.get(file.digest))
                    _replace(blob, content, mode=0o555 if file.executable else 0o444)
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(blob, target)
            made.chmod(0o755)
            _move(made, self.path_of(bundle.digest))
        except OSError as exc:
            raise Unavailable(f"cannot write `{self._path}`: {exc.strerror or exc}") from exc
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _blob(self, file: BundleFile) -> Path:
        return self._blobs / (f"{file.digest}.x" if file.executable else file.digest)


def bundled_agent(bundle: AgentBundle, root: Path) -> Agent:
    """Return the agent of a bundle on disk. It was valid when it was published, so it is not checked again."""
    name = bundle.agent
    texts = {
        file.path.removeprefix(f"agents/{name}/"): (root / file.path).read_bytes()
        for file in bundle.files
        if file.path.startswith(f"agents/{name}/")
    }
    heartbeats = {
        path.removeprefix("heartbeats/").removesuffix(".md"): text.decode()
        for path, text in texts.items()
        if path.startswith("heartbeats/")
    }
    try:
        file = msgspec.json.decode(texts["agent.json"], type=AgentFile)
    except (msgspec.DecodeError, KeyError) as exc:
        raise Invalid(f"version `{bundle.digest}` of agent `{name}` cannot be used by this Holdfast: {exc}") from exc
    agent = make_agent(
        name,
        file,
        instructions=texts["AGENT.md"].decode(),
        soul=texts["SOUL.md"].decode() if "SOUL.md" in texts else None,
        heartbeat_prompts=heartbeats,
        folder=root / bundle.folder,
        digest=bundle.digest,
    )
    return replace(agent, version=bundle.digest)


def _has_digest(path: Path, digest: str) -> bool:
    try:
        with path.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest() == digest
    except OSError:
        return False


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    handle, new = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as opened:
        opened.write(content)
        os.fchmod(handle, mode)
    os.replace(new, path)


def _link(blob: Path, target: Path) -> None:
    try:
        os.link(blob, target)
    except OSError:  # not every file system has links
        shutil.copy(blob, target)


def _move(made: Path, folder: Path) -> None:
    """Move a new folder to its place; one there that is not intact gives way."""
    if folder.is_dir():
        with suppress(OSError):
            folder.rename(made / ".replaced")
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # another process may have been faster
            raise
    shutil.rmtree(folder / ".replaced", ignore_errors=True)
