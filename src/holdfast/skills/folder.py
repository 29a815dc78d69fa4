"""Skills in a folder: `<name>/SKILL.md` with its files, or the flat `<name>.md`.

release-notes/
  SKILL.md  SKILL.ja.md          its text, and translations
  scripts/ references/ assets/   files that are read on demand
checklist.md                     a skill without files
"""

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from holdfast.domain.errors import Invalid, NotFound, TooLarge
from holdfast.domain.ids import SkillId
from holdfast.domain.skill import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILE_BYTES,
    MAX_SKILL_FILES,
    Skill,
    SkillContent,
    SkillFile,
    SkillSource,
    SkillText,
    content_of,
    describe_files,
)
from holdfast.skills.skill_md import SKILL_FILE_NAME, parse_skill, parse_translation, translation_locale

MAX_SKILL_MD_BYTES: Final = 512 * 1024
MAX_FOLDER_ENTRIES: Final = 2_000
MAX_FOLDER_DEPTH: Final = 5
MAX_FILE_PATH_CHARS: Final = 512
IGNORED_FILES: Final = frozenset({"README.md", "LICENSE.md", "CHANGELOG.md"})
"""Files in a folder of skills that are not skills."""


class Entry(NamedTuple):
    """An entry of a folder."""

    name: str
    is_folder: bool
    size: int


class SkillFolder(Protocol):
    """A folder that contains skills. Paths are relative to it."""

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return a file, or raise `NotFound`, `TooLarge` or `Invalid`."""

    def list(self, path: str) -> Sequence[Entry]:
        """Return the files and folders of a folder, by name; empty if it does not exist. Links are left out."""


class DiskFolder:
    """`SkillFolder` on disk, whose files belong to the operator."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return a file; a link out of the folder is refused."""
        try:
            root, real = Path(os.path.realpath(self.path)), Path(os.path.realpath(self.path / path, strict=True))
            if not real.is_relative_to(root):
                raise Invalid(f"{path}: is a link out of the folder: put the file itself here")
            if not stat.S_ISREG(real.stat().st_mode):  # opening a pipe would block
                raise Invalid(f"{path}: is not a regular file")
            with real.open("rb") as opened:
                content = opened.read(max_bytes + 1)
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise NotFound(f"{path}: does not exist") from exc
        except OSError as exc:
            raise Invalid(f"{path}: cannot be read: {exc.strerror or exc}") from exc
        if len(content) > max_bytes:
            raise TooLarge(f"{path}: has more than {max_bytes} bytes")
        return content

    def list(self, path: str) -> Sequence[Entry]:
        """Return the entries of a folder."""
        try:
            with os.scandir(self.path / path) as entries:
                found = [
                    Entry(each.name, is_folder=each.is_dir(), size=each.stat().st_size)
                    for each in entries
                    if each.is_file() or each.is_dir()
                ]
        except OSError:
            return []
        return sorted(found)[:MAX_FOLDER_ENTRIES]


def find_skills(folder: SkillFolder, path: str = "") -> dict[str, str]:
    """Return the skills in a folder by name, each with the path of its `SKILL.md` or flat file."""
    prefix = f"{path}/" if path else ""
    found: dict[str, str] = {}
    for entry in folder.list(path):
        if entry.name.startswith(".") or entry.name in IGNORED_FILES:
            continue
        if entry.is_folder:
            found[entry.name] = f"{prefix}{entry.name}/{SKILL_FILE_NAME}"
        elif entry.name.endswith(".md"):
            found.setdefault(entry.name.removesuffix(".md"), f"{prefix}{entry.name}")
    return found


def read_skill(
    folder: SkillFolder, path: str, *, skill_id: str, source: SkillSource, shown_path: str, disk: Path | None = None
) -> Skill:
    """Return the skill whose `SKILL.md` or flat file is at `path`, or raise `Invalid` with the file and line.

    `shown_path` is the path of the folder in messages; `disk` is the folder on this machine, if commands may read it.
    """
    name = folder_skill_name(path)
    is_flat = not path.endswith(f"/{SKILL_FILE_NAME}")
    file = f"{shown_path}/{path}"
    text = _read_text(folder, path, file=file)
    parsed = parse_skill(text, file=file, folder_name=name)
    content, files, home = parsed.content, [], path.rpartition("/")[0]
    if not is_flat:
        content = replace(content, translations=dict(_translations(folder, home, shown_path)))
        files = _skill_files(folder, home, file=file)
    return Skill(
        **{field: getattr(content, field) for field in SkillContent.__struct_fields__},
        id=SkillId(skill_id),
        source=source,
        files=files,
        folder=None if is_flat or disk is None else str(disk / home),
        warnings=parsed.warnings,
    )


def folder_skill_name(path: str) -> str:
    """Return the name that a skill has by its path."""
    folder, _, file = path.rpartition("/")
    return folder.rpartition("/")[2] if file == SKILL_FILE_NAME else file.removesuffix(".md")


def read_skill_file(folder: SkillFolder, home: str, path: str) -> bytes:
    """Return a file of a skill."""
    check_file_path(path)
    return folder.read(f"{home}/{path}" if home else path, max_bytes=MAX_SKILL_FILE_BYTES)


def write_skill_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files of a skill into a new folder, which appears complete or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    for path, content in contents.items():
        file = made / check_file_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o555 if path.startswith("scripts/") else 0o444)
    made.chmod(0o755)
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # another process may have been faster
            raise


def check_file_path(path: str) -> str:
    """Return `path` if it can be that of a file of a skill: relative to it, and not hidden."""
    steps = path.split("/")
    if len(path) > MAX_FILE_PATH_CHARS or len(steps) > MAX_FOLDER_DEPTH or not path.isprintable() or "\\" in path:
        raise Invalid("the path of a file of a skill is too long, too deep, or has unusual characters", field="path")
    if any(step == "" or step.startswith(".") for step in steps) or is_text_file(path):
        raise Invalid(
            f"`{path}` cannot be a file of a skill: name one of its files, such as `references/x.md`", field="path"
        )
    return path


def is_text_file(path: str) -> bool:
    """Return whether a path is that of the text of a skill itself, or of a translation."""
    return path == SKILL_FILE_NAME or translation_locale(path) is not None


def as_skill(
    content: SkillContent, *, id: SkillId, source: SkillSource, version: int = 1, files: list[SkillFile] | None = None
) -> Skill:
    """Return a skill with this content."""
    plain = content_of(content)
    return Skill(
        **{field: getattr(plain, field) for field in SkillContent.__struct_fields__},
        id=id,
        source=source,
        version=version,
        files=files or [],
    )


def _translations(folder: SkillFolder, home: str, shown_path: str) -> Iterator[tuple[str, SkillText]]:
    for entry in folder.list(home):
        locale = None if entry.is_folder else translation_locale(entry.name)
        if locale is not None:
            path = f"{home}/{entry.name}"
            file = f"{shown_path}/{path}"
            yield locale, parse_translation(_read_text(folder, path, file=file), file=file)


def _skill_files(folder: SkillFolder, home: str, *, file: str) -> list[SkillFile]:
    contents: dict[str, bytes] = {}
    size = 0
    for path in _walk(folder, home):
        content = folder.read(f"{home}/{path}", max_bytes=MAX_SKILL_FILE_BYTES)
        size += len(content)
        contents[path] = content
        if len(contents) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
            raise TooLarge(
                f"{file}: line 1: the skill has more than {MAX_SKILL_FILES} files or {MAX_SKILL_BYTES} bytes", file=file
            )
    return describe_files(contents)


def _walk(folder: SkillFolder, home: str) -> Iterator[str]:
    """Yield the paths of the files of a skill; hidden files and caches are not part of it."""
    queue = [("", 1)]
    while queue:
        path, depth = queue.pop()
        for entry in folder.list(f"{home}/{path}".rstrip("/")):
            below = f"{path}/{entry.name}".lstrip("/")
            if entry.name.startswith(".") or entry.name == "__pycache__" or is_text_file(below):
                continue
            if not entry.is_folder:
                yield check_file_path(below)
            elif depth < MAX_FOLDER_DEPTH:
                queue.append((below, depth + 1))


def _read_text(folder: SkillFolder, path: str, *, file: str) -> str:
    try:
        raw = folder.read(path, max_bytes=MAX_SKILL_MD_BYTES)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Invalid(f"{file}: line 1: is not UTF-8: byte {exc.start + 1} is invalid", file=file) from exc
    except TooLarge as exc:
        raise TooLarge(f"{file}: line 1: has more than {MAX_SKILL_MD_BYTES} bytes", file=file) from exc
    except (Invalid, NotFound) as exc:
        raise Invalid(f"{file}: line 1: {exc.message.partition(': ')[2] or exc.message}", file=file) from exc
    if "\x00" in text:
        raise Invalid(
            f"{file}: line {text[: text.index(chr(0))].count(chr(10)) + 1}: contains a NUL character", file=file
        )
    return text
