"""Archives of skills: a zip file with the folder of one skill.

    release-notes/SKILL.md
    release-notes/references/style.md

An archive may come from anybody: a path that leaves the folder, a link, an encrypted entry, or more bytes than a skill
may have are refused before anything is stored.
"""

import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.skill import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILE_BYTES,
    MAX_SKILL_FILES,
    SkillContent,
    check_skill_content,
)
from holdfast.skills.folder import MAX_SKILL_MD_BYTES, check_file_path, is_text_file
from holdfast.skills.skill_md import (
    SKILL_FILE_NAME,
    parse_skill,
    parse_translation,
    render_skill,
    render_translation,
    translation_locale,
    translation_name,
)

MAX_ARCHIVE_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 500
_IGNORED_PARTS: Final = ("__MACOSX", ".DS_Store", "__pycache__")
_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, OSError, ValueError),
    *(zlib.error, struct.error),
)
"""What `zipfile` raises for an archive that is damaged."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every entry, so that the same skill gives the same archive."""


class SkillArchive(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an archive."""

    content: SkillContent
    contents: dict[str, bytes]
    """The files of the skill, by path."""
    warnings: list[str]


def unpack_skill(archive: bytes) -> SkillArchive:
    """Return the skill in an archive, or raise `Invalid`."""
    if len(archive) > MAX_ARCHIVE_BYTES:
        raise TooLarge(f"an archive may have at most {MAX_ARCHIVE_BYTES} bytes")
    try:
        with zipfile.ZipFile(BytesIO(archive)) as opened:
            files = _read_entries(opened)
    except _UNREADABLE as exc:
        raise Invalid(f"the body is not a zip archive that can be read: {exc}") from exc
    prefix = _skill_prefix(files)
    own = {path.removeprefix(prefix): content for path, content in files.items() if path.startswith(prefix)}
    texts = {path: _decode(content, path) for path, content in own.items() if is_text_file(path)}
    parsed = parse_skill(texts.pop(SKILL_FILE_NAME), file=SKILL_FILE_NAME)
    translations = {
        locale: parse_translation(text, file=path)
        for path, text in texts.items()
        if (locale := translation_locale(path)) is not None
    }
    content = replace(parsed.content, translations=translations)
    check_skill_content(content)
    contents = {check_file_path(path): raw for path, raw in own.items() if not is_text_file(path)}
    return SkillArchive(content=content, contents=_check_sizes(contents), warnings=parsed.warnings)


def pack_skill(skill: SkillContent, contents: Mapping[str, bytes]) -> bytes:
    """Return an archive with the folder of a skill; the same skill gives the same bytes."""
    files = {SKILL_FILE_NAME: render_skill(skill).encode()}
    for locale, text in sorted(skill.translations.items()):
        files[translation_name(locale)] = render_translation(skill, text).encode()
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for path, content in [*files.items(), *sorted(contents.items())]:
            entry = zipfile.ZipInfo(f"{skill.name}/{path}", date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.startswith("scripts/") else 0o644) << 16
            archive.writestr(entry, content)
    return packed.getvalue()


def _read_entries(archive: zipfile.ZipFile) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise TooLarge(f"an archive may have at most {MAX_ENTRIES} entries")
    files: dict[str, bytes] = {}
    remaining = MAX_SKILL_BYTES + MAX_SKILL_MD_BYTES
    for entry in entries:
        path = entry.filename
        if entry.is_dir() or any(part in _IGNORED_PARTS for part in path.split("/")):
            continue
        _check_entry(entry)
        if path in files:
            raise Invalid(f"the archive has `{path}` twice: remove one of them")
        with archive.open(entry) as opened:
            content = opened.read(min(MAX_SKILL_FILE_BYTES, remaining) + 1)  # the size in the header may be a lie
        remaining -= len(content)
        if len(content) > MAX_SKILL_FILE_BYTES or remaining < 0:
            raise TooLarge(
                f"`{path}` is too large: a file may have at most {MAX_SKILL_FILE_BYTES} bytes, and a skill at most "
                f"{MAX_SKILL_BYTES}"
            )
        files[path] = content
    return files


def _check_entry(entry: zipfile.ZipInfo) -> None:
    path, mode = entry.filename, entry.external_attr >> 16
    if path.startswith("/") or "\\" in path or ":" in path or ".." in path.split("/"):
        raise Invalid(f"`{path[:200]}` would be outside of the folder of the skill: pack the folder again")
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        raise Invalid(f"`{path[:200]}` is a link or a special file: put the file itself into the archive")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Invalid(f"`{path[:200]}` is compressed in an unusual way: pack the folder with `zip`")
    if entry.flag_bits & 1:
        raise Invalid(f"`{path[:200]}` is encrypted: pack the folder without a password")


def _skill_prefix(files: Mapping[str, bytes]) -> str:
    """Return the folder in the archive that holds the skill, with a slash at its end, or nothing."""
    found = [path for path in files if path == SKILL_FILE_NAME or path.endswith(f"/{SKILL_FILE_NAME}")]
    found = [path for path in found if path.count("/") <= 1]
    if len(found) != 1:
        problem = "has no" if not found else "has more than one"
        raise Invalid(f"the archive {problem} `{SKILL_FILE_NAME}`: pack the folder of one skill")
    return found[0].removesuffix(SKILL_FILE_NAME)


def _check_sizes(contents: dict[str, bytes]) -> dict[str, bytes]:
    if len(contents) > MAX_SKILL_FILES or sum(map(len, contents.values())) > MAX_SKILL_BYTES:
        raise TooLarge(f"a skill may have at most {MAX_SKILL_FILES} files and {MAX_SKILL_BYTES} bytes")
    return contents


def _decode(content: bytes, path: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Invalid(f"{path}: line 1: is not UTF-8: byte {exc.start + 1} is invalid", file=path) from exc
    if "\x00" in text:
        raise Invalid(f"{path}: contains a NUL character", file=path)
    return text
