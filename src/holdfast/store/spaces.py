"""Spaces in SQL."""

from typing import Final

from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.errors import IdTaken, Invalid, NotFound, RunActive
from holdfast.domain.ids import RunId, SpaceId, check_client_id
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_LIMIT, Page, check_limit
from holdfast.domain.run import RunStatus
from holdfast.domain.space import MAX_NAME, Space, SpacePatch
from holdfast.domain.text import check_text
from holdfast.store.cursors import number_cursor, page
from holdfast.store.encoding import dump, load
from holdfast.store.transaction import Database, Row, Transaction

_DROPS: Final = (
    "drop_heads_of_space",
    "drop_messages_of_space",
    "drop_events_of_space",
    "drop_steps_of_space",
    "drop_values_of_space",
    "drop_inbox_of_space",
    "drop_interrupts_of_space",
    "drop_artifacts_of_space",
    "drop_files_of_space",
    "drop_blobs_of_space",
    "drop_timers_of_space",
    "drop_budgets_of_space",
    "drop_contexts_of_space",
    "drop_subscriptions_of_space",
    "drop_texts_of_space",
    "drop_task_numbers_of_space",
    "drop_outbox_of_space",
    "drop_notifications_of_space",
    "drop_keys_of_space",
    "drop_key_bindings_of_space",
    "drop_runs_of_space",
    "drop_run_ids_of_space",
    "drop_idempotency_keys_of_space",
    "drop_threads_of_space",
    "drop_space",
)
"""What is found by its run goes before the runs."""


class SqlSpaces:
    """`Spaces`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json] | None = None) -> Space:
        """Make a space under a chosen id."""
        check_client_id(space, field="id")
        check_text(name, field="name", most=MAX_NAME)
        data = dump(metadata or {})

        async def add(tx: Transaction) -> Space:
            row = await tx.one("add_space", id=space, name=name, metadata=data, now=tx.now)
            if row is None:
                raise IdTaken(f"there is a space `{space}` already", id=space)
            return _space(row)

        return await self._database.write(add)

    async def get(self, space: SpaceId) -> Space:
        """Return the space."""

        async def find(tx: Transaction) -> Space:
            return _space(await _found(tx, "space", space))

        return await self._database.read(find)

    async def page(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[Space]:
        """Return spaces, the oldest first."""
        check_limit(limit)
        after = 0 if cursor is None else number_cursor(cursor)

        async def find(tx: Transaction) -> Page[Space]:
            rows = await tx.all("list_spaces", after=after, limit=limit + 1)
            return page(rows, limit, value=_space, cursor=lambda row: str(row["space_key"]))

        return await self._database.read(find)

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change what `patch` names."""
        if patch.name is UNSET and patch.metadata is UNSET:
            raise Invalid("the patch changes nothing: name at least one field")
        if patch.name is not UNSET:
            check_text(patch.name, field="name", most=MAX_NAME)

        async def change(tx: Transaction) -> Space:
            row = await _found(tx, "lock_space", space)
            name = row["name"] if patch.name is UNSET else patch.name
            metadata = row["metadata"] if patch.metadata is UNSET else dump(patch.metadata)
            changed = await tx.one("update_space", space_key=row["space_key"], name=name, metadata=metadata)
            return _space(changed or row)

        return await self._database.write(change)

    async def delete(self, space: SpaceId) -> None:
        """Remove a space with everything in it."""

        async def drop(tx: Transaction) -> None:
            key = (await _found(tx, "lock_space", space))["space_key"]
            live = await tx.one("live_run_of_space", space_key=key)
            if live is not None:
                raise _active(live["id"], RunStatus(live["status"]))
            for statement in _DROPS:
                await tx.run(statement, space_key=key)

        await self._database.write(drop)


async def space_key(tx: Transaction, space: SpaceId) -> int:
    """Return the key of a space."""
    key: int = (await _found(tx, "space", space))["space_key"]
    return key


async def hold_space(tx: Transaction, space: SpaceId) -> int:
    """Return the key of a space that is to be given something, so that it is not deleted meanwhile."""
    key: int = (await _found(tx, "hold_space", space))["space_key"]
    return key


async def _found(tx: Transaction, statement: str, space: SpaceId) -> Row:
    row = await tx.one(statement, id=space)
    if row is None:
        raise NotFound(f"there is no space `{space}`", id=space)
    return row


def _active(run: RunId, status: RunStatus) -> RunActive:
    what = "its worker is still stopping: try again in a moment" if status.terminal else "cancel it first"
    return RunActive(f"run `{run}` of the space is {status}: {what}", run_id=run)


def _space(row: Row) -> Space:
    return Space(id=row["id"], name=row["name"], metadata=load(row["metadata"]), created_at=instant(row["created_at"]))
