"""Artifacts and files in SQL: each file content is stored once per space, under any number of ids."""

from hashlib import sha256

from holdfast.domain.artifact import (
    DEFAULT_MEDIA_TYPE,
    Artifact,
    ArtifactType,
    File,
    NewArtifact,
    NewFile,
    check_new_artifact,
    check_new_file,
)
from holdfast.domain.condition import ConditionEvent
from holdfast.domain.errors import IdTaken, InUse, NotFound
from holdfast.domain.ids import ArtifactId, FileId, RunId, SpaceId, check_client_id
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.thread import ThreadStatus, check_not_deleted
from holdfast.store.conditions import note_occurrences, run_occurrence
from holdfast.store.encoding import dump_json, load_json, parse_cursor, to_page
from holdfast.store.run_rows import run_key_of, run_row, to_run
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.threads import thread_row
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, writes


class SqlArtifacts(SqlPort):
    """Implements `Artifacts`."""

    @writes
    async def create(self, tx: Transaction, space: SpaceId, run: RunId, new: NewArtifact) -> Artifact:
        """Store a result of a run."""
        check_new_artifact(new)
        row = await run_row(tx, space, run)
        await tx.lock(threads=[row["thread_key"]], runs=[row["run_key"]])
        thread = row["thread_id"]
        check_not_deleted(thread, ThreadStatus((await thread_row(tx, space, thread))["status"]))
        artifact, version = await add_artifact(tx, row["space_key"], row["run_key"], new)
        made = run_occurrence(to_run(row), ConditionEvent.ARTIFACT_CREATED, type=new.type.value)
        await note_occurrences(tx, [(row["space_key"], made)])
        return _to_artifact(await _artifact_row(tx, space, artifact, version), space)

    @reads
    async def get(
        self, tx: Transaction, space: SpaceId, artifact: ArtifactId, *, version: int | None = None
    ) -> Artifact:
        """Return one version with its content."""
        return _to_artifact(await _artifact_row(tx, space, artifact, version), space)

    @reads
    async def versions(self, tx: Transaction, space: SpaceId, artifact: ArtifactId) -> list[Artifact]:
        """Return all versions without their content."""
        rows = await tx.all("artifact_versions", space=space, id=artifact)
        if not rows:
            raise NotFound(f"there is no artifact `{artifact}`", id=artifact)
        return [_to_artifact(row, space) for row in rows]

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        run: RunId | None = None,
        title: str | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Artifact]:
        """Return artifacts without their content, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        key = await space_key(tx, space)
        run_key = None if run is None else await run_key_of(tx, space, run)
        rows = await tx.all(
            "list_artifacts",
            space_key=key,
            before=before,
            run_key=run_key,
            title=title,
            lower_title=title and title.lower(),
            limit=limit + 1,
        )
        return to_page(
            rows,
            limit,
            value=lambda row: _to_artifact(row, space),
            cursor=lambda row: str(row["artifact_key"]),
        )


async def add_artifact(tx: Transaction, space: int, run_key: int, new: NewArtifact) -> tuple[ArtifactId, int]:
    """Store an artifact and return its id and version."""
    artifact = check_client_id(new.id, field="id") if new.id is not None else tx.new_id("art")
    file_id = new.file_id
    if new.file is not None:
        file_id = await _add_file(tx, space, new.file, digest=sha256(new.file.content).hexdigest())
    file = None if file_id is None else await find_row(tx, "lock_file_shared", "file", space_key=space, id=file_id)
    content = b"" if new.content is None else new.content.encode()
    while True:
        head = None if new.id is None else await tx.one("artifact_head", space_key=space, id=artifact)
        version = 1 if head is None else head["version"] + 1
        row = await tx.one(
            "add_artifact",
            space_key=space,
            run_key=run_key,
            id=artifact,
            version=version,
            type=new.type.value,
            title=new.title,
            content=new.content,
            file_key=file and file["file_key"],
            media_type=new.media_type or (DEFAULT_MEDIA_TYPE if file is None else file["media_type"]),
            digest=sha256(content).hexdigest() if file is None else file["digest"],
            size=len(content) if file is None else file["size"],
            metadata=dump_json(new.metadata),
            created_by=new.created_by,
            now=tx.now,
        )
        if row is not None:
            return ArtifactId(artifact), version
        # A concurrent transaction stored this version, which is visible now: store the next one.


async def _artifact_row(tx: Transaction, space: SpaceId, artifact: ArtifactId, version: int | None) -> Row:
    row = await tx.one("artifact", space=space, id=artifact, version=version)
    if row is None:
        which = "" if version is None else f" in version {version}"
        raise NotFound(f"there is no artifact `{artifact}`{which}", id=artifact)
    return row


def _to_artifact(row: Row, space: SpaceId) -> Artifact:
    return Artifact(
        id=row["id"],
        run_id=row["run_id"],
        space_id=space,
        type=ArtifactType(row["type"]),
        title=row["title"],
        version=row["version"],
        content=row["content"],
        file_id=row["file_id"],
        media_type=row["media_type"],
        digest=row["digest"],
        size=row["size"],
        metadata=load_json(row["metadata"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )


class SqlFiles(SqlPort):
    """Implements `Files`."""

    async def create(self, space: SpaceId, new: NewFile) -> File:
        """Store bytes under a new id."""
        check_new_file(new)
        if new.id is not None:
            check_client_id(new.id, field="id")
        digest = sha256(new.content).hexdigest()

        async def add(tx: Transaction) -> File:
            key = await lock_space_shared(tx, space)
            file = await _add_file(tx, key, new, digest=digest)
            return _to_file(await find_row(tx, "lock_file_shared", "file", space_key=key, id=file), space)

        return await self._database.write(add)

    @reads
    async def get(self, tx: Transaction, space: SpaceId, file: FileId) -> File:
        """Return the file's metadata."""
        return _to_file(await find_row(tx, "file", "file", space=space, id=file), space)

    @reads
    async def content(self, tx: Transaction, space: SpaceId, file: FileId) -> bytes:
        """Return the bytes."""
        row = await tx.one(
            "file_content", blob_key=(await find_row(tx, "file", "file", space=space, id=file))["blob_key"]
        )
        return b"" if row is None else bytes(row["content"])

    @reads
    async def page(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[File]:
        """Return files, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        key = await space_key(tx, space)
        rows = await tx.all("list_files", space_key=key, before=before, limit=limit + 1)
        return to_page(rows, limit, value=lambda row: _to_file(row, space), cursor=lambda row: str(row["file_key"]))

    @writes
    async def delete(self, tx: Transaction, space: SpaceId, file: FileId) -> None:
        """Delete the file, and its bytes if no other file shares them."""
        row = await find_row(tx, "lock_file", "file", space=space, id=file)
        artifact = await tx.one("artifact_of_file", file_key=row["file_key"])
        if artifact is not None:
            raise InUse(f"artifact `{artifact['id']}` refers to this file", artifact_id=artifact["id"])
        await tx.run("drop_file", file_key=row["file_key"])
        await tx.run("drop_unused_blob", blob_key=row["blob_key"])


async def _add_file(tx: Transaction, space_key: int, new: NewFile, *, digest: str) -> FileId:
    """Store a file and return its id."""
    file_id = new.id or tx.new_id("fil")
    blob = await tx.one("add_blob", space_key=space_key, digest=digest, size=len(new.content), content=new.content)
    assert blob is not None
    row = await tx.one(
        "add_file",
        space_key=space_key,
        id=file_id,
        blob_key=blob["blob_key"],
        name=new.name,
        media_type=new.media_type,
        created_by=new.created_by,
        now=tx.now,
    )
    if row is None:
        raise IdTaken(f"there is a file `{file_id}` already", id=file_id)
    return FileId(file_id)


def _to_file(row: Row, space: SpaceId) -> File:
    return File(
        id=row["id"],
        space_id=space,
        name=row["name"],
        media_type=row["media_type"],
        digest=row["digest"],
        size=row["size"],
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )
