"""Files of a space in SQL: each content once, under any number of names."""

from hashlib import sha256

from holdfast.domain.artifact import File, NewFile, check_new_file
from holdfast.domain.errors import IdTaken, InUse, NotFound
from holdfast.domain.ids import FileId, SpaceId, check_client_id
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_LIMIT, Page, check_limit
from holdfast.store.cursors import number_cursor, page
from holdfast.store.spaces import hold_space, space_key
from holdfast.store.transaction import Database, Row, Transaction


class SqlFiles:
    """`Files`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, space: SpaceId, new: NewFile) -> File:
        """Keep bytes under a new id."""
        check_new_file(new)
        if new.id is not None:
            check_client_id(new.id, field="id")
        digest = sha256(new.content).hexdigest()

        async def add(tx: Transaction) -> File:
            key = await hold_space(tx, space)
            blob = await tx.one("add_blob", space_key=key, digest=digest, size=len(new.content), content=new.content)
            assert blob is not None
            file_id = new.id or tx.new_id("fil")
            row = await tx.one(
                "add_file",
                space_key=key,
                id=file_id,
                blob_key=blob["blob_key"],
                name=new.name,
                media_type=new.media_type,
                created_by=new.created_by,
                now=tx.now,
            )
            if row is None:
                raise IdTaken(f"there is a file `{file_id}` already", id=file_id)
            return _file(await hold_file(tx, key, FileId(file_id)), space)

        return await self._database.write(add)

    async def get(self, space: SpaceId, file: FileId) -> File:
        """Return what is known of the file."""

        async def find(tx: Transaction) -> File:
            return _file(await _found(tx, "file", space, file), space)

        return await self._database.read(find)

    async def content(self, space: SpaceId, file: FileId) -> bytes:
        """Return the bytes."""

        async def find(tx: Transaction) -> bytes:
            row = await tx.one("file_content", blob_key=(await _found(tx, "file", space, file))["blob_key"])
            return b"" if row is None else bytes(row["content"])

        return await self._database.read(find)

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[File]:
        """Return files, the newest first."""
        check_limit(limit)
        before = 2**62 if cursor is None else number_cursor(cursor)

        async def find(tx: Transaction) -> Page[File]:
            key = await space_key(tx, space)
            rows = await tx.all("list_files", space_key=key, before=before, limit=limit + 1)
            return page(rows, limit, value=lambda row: _file(row, space), cursor=lambda row: str(row["file_key"]))

        return await self._database.read(find)

    async def delete(self, space: SpaceId, file: FileId) -> None:
        """Remove the file, and its bytes if no other file has them."""

        async def drop(tx: Transaction) -> None:
            row = await _found(tx, "lock_file", space, file)
            artifact = await tx.one("artifact_of_file", file_key=row["file_key"])
            if artifact is not None:
                raise InUse(f"artifact `{artifact['id']}` is made of this file", artifact_id=artifact["id"])
            await tx.run("drop_file", file_key=row["file_key"])
            await tx.run("drop_unused_blob", blob_key=row["blob_key"])

        await self._database.write(drop)


async def hold_file(tx: Transaction, space: int, file: FileId) -> Row:
    """Return the row of a file that something is made of, so that it is not deleted meanwhile."""
    row = await tx.one("hold_file", space_key=space, id=file)
    if row is None:
        raise NotFound(f"there is no file `{file}`", id=file)
    return row


async def _found(tx: Transaction, statement: str, space: SpaceId, file: FileId) -> Row:
    row = await tx.one(statement, space=space, id=file)
    if row is None:
        raise NotFound(f"there is no file `{file}`", id=file)
    return row


def _file(row: Row, space: SpaceId) -> File:
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
