"""Artifacts in SQL."""

from hashlib import sha256

from holdfast.domain.artifact import Artifact, ArtifactType, NewArtifact, check_new_artifact
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ArtifactId, RunId, SpaceId, check_client_id
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_LIMIT, Page, check_limit
from holdfast.domain.thread import ThreadStatus, check_there
from holdfast.store.cursors import number_cursor, page
from holdfast.store.encoding import dump, load
from holdfast.store.files import hold_file
from holdfast.store.run_rows import run_key_of, run_row
from holdfast.store.spaces import space_key
from holdfast.store.threads import thread_row
from holdfast.store.transaction import Database, Row, Transaction


class SqlArtifacts:
    """`Artifacts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, space: SpaceId, run: RunId, new: NewArtifact) -> Artifact:
        """Keep a result of a run."""
        check_new_artifact(new)

        async def add(tx: Transaction) -> Artifact:
            row = await run_row(tx, space, run)
            await tx.lock(threads=[row["thread_key"]], runs=[row["run_key"]])
            thread = row["thread_id"]
            check_there(thread, ThreadStatus((await thread_row(tx, space, thread))["status"]))
            artifact, version = await add_artifact(tx, row["space_key"], row["run_key"], new)
            return _artifact(await _row(tx, space, artifact, version), space)

        return await self._database.write(add)

    async def get(self, space: SpaceId, artifact: ArtifactId, *, version: int | None = None) -> Artifact:
        """Return one version with its content."""

        async def find(tx: Transaction) -> Artifact:
            return _artifact(await _row(tx, space, artifact, version), space)

        return await self._database.read(find)

    async def versions(self, space: SpaceId, artifact: ArtifactId) -> list[Artifact]:
        """Return all versions without their content."""

        async def find(tx: Transaction) -> list[Artifact]:
            rows = await tx.all("artifact_versions", space=space, id=artifact)
            if not rows:
                raise NotFound(f"there is no artifact `{artifact}`", id=artifact)
            return [_artifact(row, space) for row in rows]

        return await self._database.read(find)

    async def page(
        self,
        space: SpaceId,
        *,
        run: RunId | None = None,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[Artifact]:
        """Return artifacts without their content, the newest first."""
        check_limit(limit)
        before = 2**62 if cursor is None else number_cursor(cursor)

        async def find(tx: Transaction) -> Page[Artifact]:
            key = await space_key(tx, space)
            run_key = None if run is None else await run_key_of(tx, space, run)
            rows = await tx.all("list_artifacts", space_key=key, before=before, run_key=run_key, limit=limit + 1)
            return page(
                rows,
                limit,
                value=lambda row: _artifact(row, space),
                cursor=lambda row: str(row["artifact_key"]),
            )

        return await self._database.read(find)


async def add_artifact(tx: Transaction, space: int, run_key: int, new: NewArtifact) -> tuple[ArtifactId, int]:
    """Keep an artifact and return its id and version."""
    artifact = check_client_id(new.id, field="id") if new.id is not None else tx.new_id("art")
    file = None if new.file_id is None else await hold_file(tx, space, new.file_id)
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
            media_type=new.media_type,
            digest=sha256(content).hexdigest() if file is None else file["digest"],
            size=len(content) if file is None else file["size"],
            metadata=dump(new.metadata),
            created_by=new.created_by,
            now=tx.now,
        )
        if row is not None:
            return ArtifactId(artifact), version
        # Somebody else made this version meanwhile, and it can be seen now: make the next one.


async def _row(tx: Transaction, space: SpaceId, artifact: ArtifactId, version: int | None) -> Row:
    row = await tx.one("artifact", space=space, id=artifact, version=version)
    if row is None:
        which = "" if version is None else f" in version {version}"
        raise NotFound(f"there is no artifact `{artifact}`{which}", id=artifact)
    return row


def _artifact(row: Row, space: SpaceId) -> Artifact:
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
        metadata=load(row["metadata"]),
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
    )
