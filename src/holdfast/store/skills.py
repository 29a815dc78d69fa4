"""Custom skills in SQL: each change adds a version; files are stored once per skill, by digest."""

from collections.abc import Mapping

import msgspec

from holdfast.domain.errors import IdTaken, NotFound
from holdfast.domain.ids import SkillId, SpaceId, check_client_id
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.skill import (
    CustomSkill,
    NewSkill,
    SkillContent,
    SkillFile,
    SkillPatch,
    SkillVersion,
    apply_patch,
    check_expected_version,
    check_skill_content,
    content_of,
    describe_files,
)
from holdfast.ports.skills import SkillSet
from holdfast.store.encoding import dump_json, load_json, parse_cursor, to_page
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, quick_reads, reads, writes

_content_decoder = msgspec.json.Decoder(SkillContent)
_files_decoder = msgspec.json.Decoder(list[SkillFile])


class SqlSkills(SqlPort):
    """Implements `Skills`."""

    @writes
    async def create(self, tx: Transaction, space: SpaceId, new: NewSkill) -> CustomSkill:
        """Create a skill with its files."""
        check_skill_content(new.content)
        if new.id is not None:
            check_client_id(new.id, field="id")
        key = await lock_space_shared(tx, space)
        skill_id = new.id or SkillId(tx.new_id("skl"))
        row = await tx.one(
            "add_skill",
            space_key=key,
            id=skill_id,
            name=new.content.name,
            enabled=int(new.enabled),
            content=dump_json(content_of(new.content)),
            files=dump_json(describe_files(new.contents)),
            created_by=new.created_by,
            now=tx.now,
        )
        if row is None:
            raise IdTaken(f"there is a skill `{new.content.name}` already: choose another name and id", id=skill_id)
        await _add_version(tx, key, row["skill_key"], new.contents)
        return _to_skill(await find_row(tx, "skill", "skill", space=space, id=skill_id))

    @reads
    async def get(self, tx: Transaction, space: SpaceId, skill: SkillId) -> CustomSkill:
        """Return a skill in its current version."""
        return _to_skill(await find_row(tx, "skill", "skill", space=space, id=skill))

    @reads
    async def find(self, tx: Transaction, space: SpaceId, name: str) -> CustomSkill | None:
        """Return the skill with that name."""
        await space_key(tx, space)
        row = await tx.one("skill_by_name", space=space, name=name)
        return None if row is None else _to_skill(row)

    @reads
    async def page(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[CustomSkill]:
        """Return skills, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        rows = await tx.all("list_skills", space_key=await space_key(tx, space), before=before, limit=limit + 1)
        return to_page(rows, limit, value=_to_skill, cursor=lambda row: str(row["skill_key"]))

    @reads
    async def enabled(self, tx: Transaction, space: SpaceId) -> list[CustomSkill]:
        """Return the enabled skills, by name."""
        rows = await tx.all("enabled_skills", space_key=await space_key(tx, space))
        return [_to_skill(row) for row in rows]

    @quick_reads
    async def state(self, tx: Transaction, space: SpaceId) -> SkillSet:
        """Return the revision of the skills, and the language of the space."""
        row = await find_row(tx, "skill_state", "space", id=space)
        metadata = load_json(row["metadata"])
        locale = metadata.get("locale") if isinstance(metadata, dict) else None
        return SkillSet(revision=row["revision"] or 0, locale=locale if isinstance(locale, str) else None)

    @writes
    async def update(
        self,
        tx: Transaction,
        space: SpaceId,
        skill: SkillId,
        patch: SkillPatch,
        *,
        version: int | None = None,
        by: str | None = None,
    ) -> CustomSkill:
        """Add a version with the changes of `patch`."""
        row = await find_row(tx, "lock_skill", "skill", space=space, id=skill)
        current = _to_skill(row)
        check_expected_version(current, version)
        content, enabled = apply_patch(current, patch)
        await _change(tx, row, content, current.files, {}, enabled=enabled, by=by)
        return _to_skill(await find_row(tx, "skill", "skill", space=space, id=skill))

    @writes
    async def replace(
        self,
        tx: Transaction,
        space: SpaceId,
        skill: SkillId,
        content: SkillContent,
        contents: Mapping[str, bytes],
        *,
        version: int | None = None,
        by: str | None = None,
    ) -> CustomSkill:
        """Add a version with another content and other files."""
        check_skill_content(content)
        row = await find_row(tx, "lock_skill", "skill", space=space, id=skill)
        current = _to_skill(row)
        check_expected_version(current, version)
        await _change(tx, row, content, describe_files(contents), contents, enabled=current.enabled, by=by)
        return _to_skill(await find_row(tx, "skill", "skill", space=space, id=skill))

    @writes
    async def delete(self, tx: Transaction, space: SpaceId, skill: SkillId, *, version: int | None = None) -> None:
        """Delete a skill with its versions and files."""
        row = await find_row(tx, "lock_skill", "skill", space=space, id=skill)
        check_expected_version(_to_skill(row), version)
        for statement in ("drop_skill_files", "drop_skill_versions", "drop_skill"):
            await tx.run(statement, skill_key=row["skill_key"])
        await tx.run("raise_skill_revision", space_key=row["space_key"], now=tx.now)

    @reads
    async def versions(self, tx: Transaction, space: SpaceId, skill: SkillId) -> list[SkillVersion]:
        """Return all versions of a skill, oldest first."""
        key = (await find_row(tx, "skill", "skill", space=space, id=skill))["skill_key"]
        return [_to_version(row) for row in await tx.all("list_skill_versions", skill_key=key)]

    @reads
    async def version(self, tx: Transaction, space: SpaceId, skill: SkillId, version: int) -> SkillVersion:
        """Return one version of a skill."""
        return _to_version(await find_row(tx, "skill_version", "skill", space=space, id=skill, version=version))

    @reads
    async def file(
        self, tx: Transaction, space: SpaceId, skill: SkillId, path: str, *, version: int | None = None
    ) -> bytes:
        """Return a file of a version of a skill."""
        row = await find_row(tx, "skill", "skill", space=space, id=skill)
        if version is not None:
            row = await find_row(tx, "skill_version", "skill", space=space, id=skill, version=version)
        digest = next((file.digest for file in _files_decoder.decode(row["files"]) if file.path == path), None)
        found = None if digest is None else await tx.one("skill_file", skill_key=row["skill_key"], digest=digest)
        if found is None:
            raise NotFound(f"skill `{skill}` has no file `{path}`", path=path)
        return bytes(found["content"])


async def _change(
    tx: Transaction,
    row: Row,
    content: SkillContent,
    files: list[SkillFile],
    contents: Mapping[str, bytes],
    *,
    enabled: bool,
    by: str | None,
) -> None:
    """Store another version of a locked skill."""
    if content.name != row["name"]:
        await lock_space_shared(tx, row["space_id"])
        if await tx.one("skill_by_name", space=row["space_id"], name=content.name) is not None:
            raise IdTaken(f"there is a skill `{content.name}` already: choose another name", id=row["id"])
    await tx.run(
        "update_skill",
        skill_key=row["skill_key"],
        name=content.name,
        enabled=int(enabled),
        content=dump_json(content_of(content)),
        files=dump_json(files),
        updated_by=by,
        now=tx.now,
    )
    await _add_version(tx, row["space_key"], row["skill_key"], contents)


async def _add_version(tx: Transaction, space: int, skill: int, contents: Mapping[str, bytes]) -> None:
    for file in describe_files(contents):
        await tx.run("add_skill_file", skill_key=skill, digest=file.digest, content=contents[file.path])
    await tx.run("add_skill_version", skill_key=skill)
    await tx.run("raise_skill_revision", space_key=space, now=tx.now)


def _to_skill(row: Row) -> CustomSkill:
    content = _content_decoder.decode(row["content"])
    return CustomSkill(
        **{field: getattr(content, field) for field in SkillContent.__struct_fields__},
        id=row["id"],
        space_id=row["space_id"],
        enabled=bool(row["enabled"]),
        version=row["version"],
        files=_files_decoder.decode(row["files"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        updated_by=row["updated_by"],
        updated_at=instant(row["updated_at"]),
    )


def _to_version(row: Row) -> SkillVersion:
    return SkillVersion(
        version=row["version"],
        enabled=bool(row["enabled"]),
        content=_content_decoder.decode(row["content"]),
        files=_files_decoder.decode(row["files"]),
        changed_by=row["changed_by"],
        created_at=instant(row["created_at"]),
    )
